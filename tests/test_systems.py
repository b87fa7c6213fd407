"""The systems a table compares: what each takes as query, what it ranks, and that vectors are made once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import DEMO_CORPUS, SHARED_DATA

from evaluation.collection import Collection, EvalQuery
from evaluation.dense import SUFFIXES, Choice, chosen_sentences, parse_name
from evaluation.lexical import Bm25, TfIdf, words
from evaluation.measurement import Request, load_collection, measure
from evaluation.systems import DEPTH, TEXT_SYSTEMS, Systems, default_tau
from evaluation.vectors import VectorCache, VectorSource, digest_of, encode_collection
from evaluation.word_vectors import WordVectors, train
from indexer.snapshot import Snapshot
from models.encoder import Encoder
from models.errors import EncoderMismatchError, InputError, StorageError, UnknownNameError
from models.sentences import sentences_from_list
from models.transport import SERVING, Scorer
from models.types import EncodedPaper, EncoderSpec, Facet, Paper, Unit
from service.aspect import Aspect
from service.search import SearchEngine, SearchQuery


def ignore(stage: str, done: int, total: int | None) -> None:
    """Progress nobody watches."""


class Counting:
    """An encoder that remembers how many papers it was given."""

    def __init__(self, encoder: Encoder, spec: EncoderSpec | None = None) -> None:
        self._encoder = encoder
        self.spec = spec or encoder.spec
        self.n_papers = 0

    def encode(self, papers: Sequence[Paper]) -> list[EncodedPaper]:
        """As the encoder behind it, one row a paper where the unit is a document."""
        self.n_papers += len(papers)
        encoded = self._encoder.encode(papers)
        if self.spec.unit is Unit.DOCUMENT:
            return [EncodedPaper(paper.document[None], paper.document, 0) for paper in encoded]
        return encoded


def paper(paper_id: str, title: str, *sentences: str) -> Paper:
    """An invented paper."""
    abstract, split = sentences_from_list(sentences)
    return Paper(id=paper_id, title=title, abstract=abstract, sentences=split)


PAPERS = {
    each.id: each
    for each in (
        paper("q", "Flood forecasting", "Floods threaten river towns.", "A kernel regression reads gauges."),
        paper("same-topic", "River floods", "Floods threaten river towns each year.", "We ask their mayors."),
        paper(
            "same-method", "Bread", "Bakers guess oven heat.", "A kernel regression reads gauges of ovens."
        ),
        paper("neither", "Moths", "Moths sing.", "We listen at night."),
    )
}
OTHERS = ("same-topic", "same-method", "neither")


def collection(*queries: EvalQuery) -> Collection:
    """The invented papers with these queries; what is relevant does not matter here."""
    qrels = {query.id: {"same-topic": 1} for query in queries}
    return Collection("invented", PAPERS, queries, qrels, 1, ("P@1", "MAP"))


METHOD = EvalQuery("q:method", PAPERS["q"], OTHERS, "q", selected=(1,), facet="method")
WHOLE = EvalQuery("q:whole", PAPERS["q"], OTHERS, "q")


@pytest.fixture
def systems(hashing: Encoder) -> Callable[..., Systems]:
    """Systems over the invented papers, under the encoder without weights."""

    def over(*queries: EvalQuery, encoder: Encoder = hashing, tau: float | None = None) -> Systems:
        return Systems(collection(*queries), lambda _: VectorSource(encoder, on_progress=ignore), tau=tau)

    return over


@pytest.mark.parametrize("name", ["bm25", "tfidf", "hashing:ot", "hashing:alone:single"])
def test_the_selected_sentence_decides(systems: Callable[..., Systems], name: str) -> None:
    """With the method selected, the paper of the same method comes first; for words under ``-facet``."""
    asked = name if ":" in name else f"{name}-facet"
    assert "same-method" == systems(METHOD).rank(asked).ranking("q:method")[0]


@pytest.mark.parametrize("name", ["bm25", "tfidf"])
def test_whole_abstract_systems_ignore_the_selection(systems: Callable[..., Systems], name: str) -> None:
    """bm25 and tfidf read title and abstract, whatever is selected."""
    run = systems(METHOD, WHOLE).rank(name)
    assert run.scores["q:whole"] == run.scores["q:method"]


@pytest.mark.parametrize("scorer", list(Scorer))
def test_whole_counts_every_sentence(systems: Callable[..., Systems], scorer: Scorer) -> None:
    """``:whole`` of a query with a selection is the plain system of the query without one."""
    ranked = systems(METHOD, WHOLE)
    whole = ranked.rank(f"hashing:{scorer}:whole").scores["q:method"]
    assert ranked.rank(f"hashing:{scorer}").scores["q:whole"] == whole
    assert ranked.rank(f"hashing:{scorer}").scores["q:method"] != whole


def test_focus_is_what_the_service_does(hashed_snapshot: Snapshot, hashing: Encoder) -> None:
    """``ENCODER:ot:focus`` over a snapshot gives the papers and scores that the service answers with."""
    demo = load_collection("demo", DEMO_CORPUS)
    queries = [query for query in demo.queries if query.facet == "method"][:3]
    source = VectorSource(hashing, snapshot=hashed_snapshot, on_progress=ignore)
    ranked = Systems(replace(demo, queries=tuple(queries)), lambda _: source).rank("hashing:ot:focus")
    engine = SearchEngine(hashed_snapshot, lambda: hashing, n_candidates=100)
    for query in queries:
        answer = engine.search(
            SearchQuery(paper_id=query.paper.id, aspect=Aspect(facet=Facet.METHOD), limit=10)
        )
        expected = {result.paper.id: result.score for result in answer.results}
        found = {paper_id: ranked.scores[query.id][paper_id] for paper_id in ranked.ranking(query.id)[:10]}
        assert pytest.approx(expected, abs=1e-9) == found


def test_the_query_paper_is_never_ranked(systems: Callable[..., Systems]) -> None:
    """Neither a pool that lists the query's own paper nor a query of the whole collection returns it."""
    own = replace(WHOLE, pool=("q", *OTHERS))
    anywhere = replace(WHOLE, id="anywhere", pool=())
    for name in ("bm25", "hashing:ot", "hashing:document"):
        scores = systems(own, anywhere).rank(name).scores
        assert [set(OTHERS), set(OTHERS)] == [set(scores["q:whole"]), set(scores["anywhere"])]


def test_a_judged_paper_that_is_not_there_is_passed_over(systems: Callable[..., Systems]) -> None:
    """A pool may name papers that the collection lacks."""
    run = systems(replace(WHOLE, pool=(*OTHERS, "lost"))).rank("bm25")
    assert set(OTHERS) == set(run.scores["q:whole"])


def test_a_query_without_usable_sentences_is_not_answered(systems: Callable[..., Systems]) -> None:
    """Nothing selected, or only what lies past the token limit: the run leaves the query out."""
    ranked = systems(replace(METHOD, selected=()), replace(METHOD, id="past", selected=(9,)))
    assert {} == ranked.rank("hashing:ot").scores
    assert {} == systems(replace(METHOD, selected=())).rank("bm25-facet").scores


def test_a_short_text_is_a_query_too(systems: Callable[..., Systems]) -> None:
    """A text query, whose paper is not in the collection, ranks the whole collection."""
    text = EvalQuery("t", paper("t", "", "kernel regression of oven heat"), (), "t", is_text=True)
    for name in ("bm25", "tfidf", "hashing:ot", "hashing:document"):
        run = systems(text).rank(name)
        assert ("same-method", set(PAPERS)) == (run.ranking("t")[0], set(run.scores["t"]))


def test_an_open_pool_keeps_the_best_thousand(hashing: Encoder) -> None:
    """A run over a large collection ends at the depth TREC uses, and keeps the best."""
    many = {f"p{i}": paper(f"p{i}", "", f"word{i} filler text") for i in range(DEPTH + 50)}
    query = EvalQuery("t", paper("t", "", "word1049"), (), "t", is_text=True)
    large = Collection("large", many, (query,), {"t": {}}, 1, ("MAP",))
    run = Systems(large, lambda _: VectorSource(hashing, on_progress=ignore)).rank("bm25")
    assert (DEPTH, "p1049") == (len(run.scores["t"]), run.ranking("t")[0])


def test_names_leave_out_what_says_nothing_new(systems: Callable[..., Systems], hashing: Encoder) -> None:
    """Without selections there is no ``-facet``, ``:whole``, ``:focus``; a document encoder: one system."""
    plain = systems(WHOLE).names(["hashing"], scorers=[Scorer.OT])
    assert [*TEXT_SYSTEMS, "hashing:document", "hashing:alone:ot", "hashing:ot"] == plain
    selecting = systems(METHOD).names(["hashing"])
    assert {f"{name}{ending}" for name in TEXT_SYSTEMS for ending in ("", "-facet")} | {
        f"hashing:{suffix}" for suffix in SUFFIXES
    } == set(selecting)
    document = Counting(hashing, replace(hashing.spec, unit=Unit.DOCUMENT))
    only = systems(METHOD, encoder=document).names(["x"])
    assert ["x:document"] == [name for name in only if ":" in name]
    with pytest.raises(InputError, match="one vector a paper"):
        systems(METHOD, encoder=document).rank("x:ot")


def test_every_system_can_be_ranked(systems: Callable[..., Systems]) -> None:
    """Each name that ``names`` gives is a system that answers the query."""
    ranked = systems(METHOD)
    for name in ranked.names(["hashing"]):
        assert set(OTHERS) == set(ranked.rank(name).scores["q:method"]), name


@pytest.mark.parametrize("name", ["bm26", "hashing:magic", "hashing:ot:hole", ":ot", "bm25-facet-facet"])
def test_an_unknown_system_is_named(systems: Callable[..., Systems], name: str) -> None:
    """A name that is no system is an error that lists what there is."""
    with pytest.raises(UnknownNameError, match="Unknown system"):
        systems(METHOD).rank(name)


def test_a_folder_may_be_an_encoders_name() -> None:
    """The suffix is read from the end, so a path with colons is still an encoder, and ``alone`` a suffix."""
    assert ("/models/a:b c", "ot:focus") == parse_name("/models/a:b c:ot:focus")
    assert ("minilm", "alone:exact_ot") == parse_name("minilm:alone:exact_ot")


def test_tau_is_the_services_unless_given(systems: Callable[..., Systems], hashing: Encoder) -> None:
    """Unit vectors get a sharper temperature; one that is given changes the scores."""
    assert default_tau(hashing.spec) < SERVING.tau == default_tau(replace(hashing.spec, normalised=False))
    default = systems(METHOD).rank("hashing:attention").scores
    assert default == systems(METHOD, tau=default_tau(hashing.spec)).rank("hashing:attention").scores
    assert default != systems(METHOD, tau=5.0).rank("hashing:attention").scores


def test_sentences_past_the_token_limit_take_no_part() -> None:
    """Only sentences with a vector are chosen, each once, in order."""
    query = replace(METHOD, selected=(4, 1, 1, 0))
    assert [0, 1] == chosen_sentences(query, 3, Choice.SELECTED)
    assert [0, 1, 2] == chosen_sentences(query, 3, Choice.WHOLE)


def test_words_are_stemmed_without_stop_words() -> None:
    """Case, endings, stop words and single letters do not count."""
    assert ["flood", "threaten", "river", "town"] == words("The floods threatened a river's towns.")


def test_bm25_is_lucenes_formula() -> None:
    """A score equals idf * tf / (tf + k1 (1 - b + b * length / mean length)), summed over query words."""
    documents = [["flood", "flood", "river"], ["river"], ["moth", "night"]]
    idf = np.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    expected = idf * 2 / (2 + 1.5 * (1 - 0.75 + 0.75 * 3 / 2))
    scores = Bm25(documents).scores(["flood", "unknown"])
    np.testing.assert_allclose(scores, [expected, 0, 0], rtol=1e-6)
    np.testing.assert_array_equal(Bm25(documents).scores(["unknown"]), np.zeros(3))
    np.testing.assert_allclose(Bm25(documents).scores(["flood", "flood"]), 2 * scores, rtol=1e-6)


def test_tf_idf_is_a_cosine() -> None:
    """A document is at cosine 1 with itself and 0 with one that shares no word."""
    documents = [["flood", "river"], ["moth", "night"]]
    np.testing.assert_allclose(TfIdf(documents).scores(documents[0]), [1, 0])


def test_word_vectors_are_the_same_each_time() -> None:
    """Training twice gives the same scores; weighting changes them; unknown words score 0."""
    documents = [words(f"{each.title} {each.abstract}") for each in PAPERS.values()] * 20
    scores = [
        WordVectors(documents, train(documents), weighted=weighted).scores(documents[0])
        for weighted in (False, False, True)
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])
    assert pytest.approx(1) == scores[0][0]
    assert not WordVectors(documents, train(documents), weighted=True).scores(["unheard"]).any()


def test_a_paper_is_encoded_once(hashing: Encoder, tmp_path: Path) -> None:
    """All systems of an encoder share its vectors, and a cache saves the next run from encoding at all."""
    counts = []
    for _ in range(2):
        encoder = Counting(hashing)
        source = VectorSource(encoder, cache=tmp_path, on_progress=ignore)
        ranked = Systems(collection(METHOD, WHOLE), lambda _, source=source: source)
        runs = [ranked.rank(f"hashing:{suffix}").scores for suffix in SUFFIXES]
        counts.append((encoder.n_papers, runs))
    n_sentences = len({s.text for each in PAPERS.values() for s in each.sentences})
    assert [len(PAPERS) + n_sentences, 0] == [n_papers for n_papers, _ in counts]
    assert counts[0][1] == counts[1][1]


def test_only_what_some_query_ranks_is_encoded(hashing: Encoder) -> None:
    """Papers in no pool are not encoded; they own no rows."""
    encoder = Counting(hashing)
    source = VectorSource(encoder, on_progress=ignore)
    vectors = encode_collection(collection(replace(WHOLE, pool=("neither",))), source, alone=False)
    assert 2 == encoder.n_papers
    assert [0, 0, 0, 2] == np.diff(vectors.papers.offsets).tolist()


def test_sentences_alone_know_nothing_of_their_paper(hashing: Encoder) -> None:
    """A sentence encoded alone has the vector it has as a paper of its own; in context it has another."""
    source = VectorSource(hashing, on_progress=ignore)
    single = hashing.encode([paper("x", "", PAPERS["q"].sentences[1].text)])[0].sentences[0]
    alone = encode_collection(collection(WHOLE), source, alone=True).queries["q:whole"]
    context = encode_collection(collection(WHOLE), source, alone=False).queries["q:whole"]
    np.testing.assert_array_equal(alone.sentences[1], single)
    assert not np.allclose(context.sentences[1], single)


def test_progress_counts_every_paper(hashing: Encoder) -> None:
    """Progress names the encoder and ends at the number of papers, over all calls of a stage."""
    seen: list[tuple[str, int, int | None]] = []
    source = VectorSource(hashing, on_progress=lambda *told: seen.append(told))
    source.of([PAPERS["q"]], stage="hashing")
    source.of(list(PAPERS.values()), stage="hashing")
    assert [("hashing", 1, 1), ("hashing", 5, 5)] == seen


def test_a_changed_paper_is_not_found_in_the_cache(hashing: Encoder, tmp_path: Path) -> None:
    """The cache goes by what a paper says, not by its id; a damaged file is named."""
    encoded = hashing.encode([PAPERS["q"]])[0]
    VectorCache(tmp_path).write({digest_of(PAPERS["q"]): encoded})
    changed = replace(PAPERS["q"], title="Another title")
    kept = VectorCache(tmp_path).read([digest_of(PAPERS["q"]), digest_of(changed)])
    assert [digest_of(PAPERS["q"])] == list(kept)
    np.testing.assert_array_equal(encoded.sentences, kept[digest_of(PAPERS["q"])].sentences)
    (file,) = tmp_path.glob("*.npz")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(StorageError, match="delete it"):
        VectorCache(tmp_path)


def test_a_snapshot_stands_in_for_encoding(hashed_snapshot: Snapshot, hashing: Encoder) -> None:
    """Papers a snapshot holds word for word are not encoded; others are; another encoder's is refused."""
    encoder = Counting(hashing)
    source = VectorSource(encoder, snapshot=hashed_snapshot, on_progress=ignore)
    held = hashed_snapshot.paper(3)
    changed = replace(hashed_snapshot.paper(4), title="Another title")
    found = source.of([held, changed], stage="x")
    assert 1 == encoder.n_papers
    np.testing.assert_array_equal(hashed_snapshot.vectors(3), found[0].sentences)
    np.testing.assert_array_equal(hashing.encode([changed])[0].sentences, found[1].sentences)
    with pytest.raises(EncoderMismatchError):
        VectorSource(
            Counting(hashing, replace(hashing.spec, fingerprint="other")),
            snapshot=hashed_snapshot,
            on_progress=ignore,
        )
    ranked = Systems(collection(WHOLE), lambda _: source)
    assert "hashing:document" not in ranked.names(["hashing"])
    with pytest.raises(InputError, match="no document vectors"):
        ranked.rank("hashing:document")


def test_an_explanation_adds_up_to_its_score(systems: Callable[..., Systems]) -> None:
    """Explained papers come in the run's order, with its scores; words and documents have no plan."""
    ranked = systems(METHOD)
    run = ranked.rank("hashing:ot:focus")
    explained = ranked.explain(run, METHOD, limit=2)
    assert run.ranking("q:method")[:2] == [result.paper.id for result in explained]
    for result in explained:
        assert pytest.approx(run.scores["q:method"][result.paper.id]) == result.score
        total = sum(cell.weight * cell.distance for cell in result.alignments)
        assert pytest.approx(-result.score, abs=1e-5) == total
        assert {1} == {cell.query_sentence for cell in result.alignments}
    assert () == ranked.explain(ranked.rank("bm25"), METHOD, limit=2)


def test_a_quick_look_spreads_over_the_queries() -> None:
    """With a limit, queries are taken evenly, so that every facet keeps some, and a note says so."""
    few = load_collection("demo", DEMO_CORPUS, limit_queries=10)
    assert {"background": 5, "method": 5} == {
        facet: sum(query.facet == facet for query in few.queries) for facet in ("background", "method")
    }
    assert any("Only 10 of 200" in note for note in few.notes)


def test_bm25_on_csfcube_is_the_floor_to_beat() -> None:
    """BM25 over whole abstracts lands where the development fold's baseline is known to be."""
    if not (SHARED_DATA / "csfcube").is_dir():
        pytest.skip("the test collection is not on this machine")
    measured = measure("csfcube", SHARED_DATA / "csfcube", Request(systems=("bm25",)), on_progress=ignore)
    found = {row.measure: row.value for row in measured.rows if (row.facet, row.fold) == ("all", "all")}
    assert {"NDCG%20": pytest.approx(55.9, abs=0.5), "MAP": pytest.approx(38.0, abs=0.5)} == {
        name: found[name] for name in ("NDCG%20", "MAP")
    }
