"""Tests of the systems that are compared: their queries and the papers that they rank."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from evaluation.collection import Collection, EvalQuery
from evaluation.measurement import Request, load_collection, measure
from evaluation.systems.dense import chosen_sentences
from evaluation.systems.system import DENSE, TEXT_SYSTEMS, Choice, TextSystem, VectorSystem, parse
from evaluation.systems.systems import DEPTH, Systems, default_tau
from evaluation.systems.vectors import VectorSource
from indexer.snapshot.snapshot import Snapshot
from models.encoder import Encoder
from models.errors import InputError, UnknownNameError
from models.transport import SERVING, Scorer
from models.types import Facet, Paper, Unit
from service.search.aspect import Aspect
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from tests.support.annotators import annotated
from tests.support.builds import DEMO_CORPUS
from tests.support.examples.evaluation.system_examples import (
    METHOD,
    OTHERS,
    PAPERS,
    WHOLE,
    Counting,
    LastIsMethod,
    collection,
    ignore,
    paper,
)
from tests.support.outside_data import outside_data


@pytest.fixture
def systems(hashing: Encoder) -> Callable[..., Systems]:
    """Return a function that makes systems over the example papers, with the hashing encoder."""

    def over(*queries: EvalQuery, encoder: Encoder = hashing, **settings: float) -> Systems:
        source, tagger = VectorSource(encoder, on_progress=ignore), LastIsMethod()
        return Systems(collection(*queries), lambda _: source, open_tagger=lambda _: tagger, **settings)

    return over


@pytest.mark.parametrize("name", ["bm25", "tfidf", "hashing:ot", "hashing:alone:single"])
def test_the_selected_sentence_decides(systems: Callable[..., Systems], name: str) -> None:
    """With the method selected, the paper of the same method is first; word systems need ``-facet``."""
    faceted = name if ":" in name else f"{name}-facet"
    assert "same-method" == systems(METHOD).rank(faceted).ranking("q:method")[0]


@pytest.mark.parametrize("name", ["bm25", "tfidf"])
def test_whole_abstract_systems_ignore_the_selection(systems: Callable[..., Systems], name: str) -> None:
    """bm25 and tfidf use title and abstract, whatever is selected."""
    run = systems(METHOD, WHOLE).rank(name)
    assert run.scores["q:whole"] == run.scores["q:method"]


@pytest.mark.parametrize("scorer", list(Scorer))
def test_whole_counts_every_sentence(systems: Callable[..., Systems], scorer: Scorer) -> None:
    """``:whole`` of a query with a selection scores like the plain system without one."""
    ranked = systems(METHOD, WHOLE)
    whole = ranked.rank(f"hashing:{scorer}:whole").scores["q:method"]
    assert ranked.rank(f"hashing:{scorer}").scores["q:whole"] == whole
    assert ranked.rank(f"hashing:{scorer}").scores["q:method"] != whole


def test_focus_is_what_the_service_does(hashed_snapshot: Snapshot, hashing: Encoder) -> None:
    """``ENCODER:ot:focus:words`` over a snapshot gives the papers and scores of the service."""
    demo = load_collection("demo", DEMO_CORPUS)
    queries = [query for query in demo.queries if query.facet == "method"][:3]
    source = VectorSource(hashing, snapshot=hashed_snapshot, on_progress=ignore)
    ranked = Systems(replace(demo, queries=tuple(queries)), lambda _: source).rank("hashing:ot:focus:words")
    engine = SearchEngine(hashed_snapshot, lambda: annotated(hashing), n_candidates=100)
    for query in queries:
        answer = engine.search(
            SearchQuery((Seed(query.paper.id, aspect=Aspect(facets=(Facet.METHOD,))),), limit=10)
        )
        expected = {result.paper.id: result.score for result in answer.results}
        found = {paper_id: ranked.scores[query.id][paper_id] for paper_id in ranked.ranking(query.id)[:10]}
        assert pytest.approx(expected, abs=1e-9) == found


def test_the_query_paper_is_never_ranked(systems: Callable[..., Systems]) -> None:
    """The query's paper is not ranked, even if its pool lists it or the pool is the collection."""
    own = replace(WHOLE, pool=("q", *OTHERS))
    anywhere = replace(WHOLE, id="anywhere", pool=())
    for name in ("bm25", "hashing:ot", "hashing:document"):
        scores = systems(own, anywhere).rank(name).scores
        assert [set(OTHERS), set(OTHERS)] == [set(scores["q:whole"]), set(scores["anywhere"])]


def test_a_judged_paper_that_is_not_there_is_passed_over(systems: Callable[..., Systems]) -> None:
    """Papers of a pool that the collection lacks are skipped."""
    run = systems(replace(WHOLE, pool=(*OTHERS, "lost"))).rank("bm25")
    assert set(OTHERS) == set(run.scores["q:whole"])


def test_a_query_without_usable_sentences_is_not_answered(systems: Callable[..., Systems]) -> None:
    """A query with no selected sentence before the token limit is missing from the run."""
    ranked = systems(replace(METHOD, selected=()), replace(METHOD, id="past", selected=(9,)))
    assert {} == ranked.rank("hashing:ot").scores
    assert {} == systems(replace(METHOD, selected=())).rank("bm25-facet").scores


def test_a_short_text_is_a_query_too(systems: Callable[..., Systems]) -> None:
    """A text query, whose paper is not in the collection, ranks the whole collection."""
    text = EvalQuery("t", paper("t", "", "kernel regression of oven heat"), (), "t", is_text=True)
    for name in ("bm25", "tfidf", "hashing:ot", "hashing:document"):
        run = systems(text).rank(name)
        assert ("same-method", set(PAPERS)) == (run.ranking("t")[0], set(run.scores["t"]))


def test_only_a_text_over_a_whole_collection_is_cut(hashing: Encoder) -> None:
    """For a short text only TREC's depth of a large collection is kept; for a paper, all scores are."""
    many = {f"p{i}": paper(f"p{i}", "", f"word{i} filler text") for i in range(DEPTH + 50)}
    query = EvalQuery("t", paper("t", "", "word1049"), (), "t", is_text=True)
    large = Collection("large", many, (query,), {"t": {}}, 1, ("MAP",))
    run = Systems(large, lambda _: VectorSource(hashing, on_progress=ignore)).rank("bm25")
    assert (DEPTH, "p1049") == (len(run.scores["t"]), run.ranking("t")[0])
    as_paper = replace(large, queries=(replace(query, is_text=False),))
    whole = Systems(as_paper, lambda _: VectorSource(hashing, on_progress=ignore)).rank("hashing:ot")
    assert len(many) == len(whole.scores["t"])


def test_names_leave_out_what_says_nothing_new(systems: Callable[..., Systems], hashing: Encoder) -> None:
    """``names`` omits systems without effect: without selections, or with a document encoder."""
    plain = systems(WHOLE).names(["hashing"], scorers=[Scorer.OT])
    assert [*TEXT_SYSTEMS, *(f"hashing:{s}" for s in ("document", "alone:ot", "ot", "ot:words"))] == plain
    selecting = systems(METHOD).names(["hashing"])
    assert {f"{name}{ending}" for name in TEXT_SYSTEMS for ending in ("", "-facet")} | {
        f"hashing:{suffix}" for suffix in DENSE
    } == set(selecting)
    document = Counting(hashing, replace(hashing.spec, unit=Unit.DOCUMENT))
    only = systems(METHOD, encoder=document).names(["x"])
    assert ["x:document"] == [name for name in only if ":" in name]
    with pytest.raises(InputError, match="one vector a paper"):
        systems(METHOD, encoder=document).rank("x:ot")


def test_every_system_can_be_ranked(systems: Callable[..., Systems]) -> None:
    """Every system that ``names`` gives ranks the whole pool."""
    ranked = systems(METHOD)
    for name in ranked.names(["hashing"]):
        assert set(OTHERS) == set(ranked.rank(name).scores["q:method"]), name


@pytest.mark.parametrize("name", ["bm26", "hashing:magic", "hashing:ot:hole", ":ot", "bm25-facet-facet"])
def test_an_unknown_system_is_named(systems: Callable[..., Systems], name: str) -> None:
    """An unknown name of a system is an error."""
    with pytest.raises(UnknownNameError, match="Unknown system"):
        systems(METHOD).rank(name)


def test_a_folder_may_be_an_encoders_name() -> None:
    """The suffix is read from the end, so that an encoder may be a path with colons."""
    assert VectorSystem("/models/a:b c", DENSE["ot:focus"]) == parse("/models/a:b c:ot:focus")
    assert VectorSystem("minilm", DENSE["alone:exact_ot"]) == parse("minilm:alone:exact_ot")


def test_a_system_and_its_name_say_the_same() -> None:
    """The name of every system parses to this system, and no two systems have the same name."""
    systems = [TextSystem(method, facet) for method in TEXT_SYSTEMS for facet in (False, True)]
    systems += [VectorSystem("minilm", dense) for dense in DENSE.values()]
    assert systems == [parse(str(system)) for system in systems]
    assert len(systems) == len({str(system) for system in systems})


def test_tau_is_the_services_unless_given(systems: Callable[..., Systems], hashing: Encoder) -> None:
    """The default tau is lower for unit vectors, and a given tau changes the scores."""
    assert default_tau(hashing.spec) < SERVING.tau == default_tau(replace(hashing.spec, normalised=False))
    default = systems(METHOD).rank("hashing:attention").scores
    assert default == systems(METHOD, tau=default_tau(hashing.spec)).rank("hashing:attention").scores
    assert default != systems(METHOD, tau=5.0).rank("hashing:attention").scores


def test_sentences_past_the_token_limit_take_no_part() -> None:
    """Only sentences with a vector are chosen, each once, in order."""
    query = replace(METHOD, selected=(4, 1, 1, 0))
    assert [0, 1] == chosen_sentences(query, 3, Choice.SELECTED)
    assert [0, 1, 2] == chosen_sentences(query, 3, Choice.WHOLE)


def test_an_explanation_adds_up_to_its_score(systems: Callable[..., Systems]) -> None:
    """Explained papers have the order and scores of the run; systems of words alone have no plan."""
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


def test_an_explanation_counts_words(systems: Callable[..., Systems]) -> None:
    """Explanations of ``:words`` include the weighted words of the score, and weight 0 turns them off."""
    ranked = systems(METHOD)
    run, plain = ranked.rank("hashing:ot:focus:words"), ranked.rank("hashing:ot:focus")
    for result in ranked.explain(run, METHOD, limit=2):
        assert result.words.weight > 0
        counted = [*result.alignments, result.words]
        assert pytest.approx(-result.score, abs=1e-5) == sum(each.weight * each.distance for each in counted)
        assert pytest.approx(run.scores["q:method"][result.paper.id]) == result.score
    assert plain.scores == systems(METHOD, words=0.0).rank("hashing:ot:focus:words").scores


def test_a_quick_look_spreads_over_the_queries() -> None:
    """With a limit, queries are taken evenly over the facets, and a note says so."""
    few = load_collection("demo", DEMO_CORPUS, limit_queries=10)
    assert {"background": 5, "method": 5} == {
        facet: sum(query.facet == facet for query in few.queries) for facet in ("background", "method")
    }
    assert any("Only 10 of 200" in note for note in few.notes)


def test_bm25_on_the_demo_grid_is_where_it_was() -> None:
    """BM25 on the demo has known values, and finds the same problem better than the same method."""
    measured = measure("demo", DEMO_CORPUS, Request(systems=("bm25",)), on_progress=ignore)
    found = {row.facet: row.value for row in measured.rows if row.measure == "MAP"}
    assert pytest.approx({"background": 63.4, "method": 45.2, "all": 54.3}, abs=0.5) == found


def test_bm25_on_csfcube_is_the_floor_to_beat() -> None:
    """BM25 on CSFCube's development fold has the known values of the baseline."""
    measured = measure("csfcube", outside_data("csfcube"), Request(systems=("bm25",)), on_progress=ignore)
    found = {row.measure: row.value for row in measured.rows if (row.facet, row.fold) == ("all", "fold1")}
    assert {"NDCG%20": pytest.approx(55.9, abs=0.5), "MAP": pytest.approx(38.0, abs=0.5)} == {
        name: found[name] for name in ("NDCG%20", "MAP")
    }


def test_same_facet_compares_a_candidates_sentences_of_that_facet_alone(hashing: Encoder) -> None:
    """With the same facet only, words in another facet do not count, unless the paper lacks the facet."""

    def labelled(name: str, *sentences: tuple[str, Facet]) -> Paper:
        plain = paper(name, "Gauges", *(text for text, _ in sentences))
        facets = [facet for _, facet in sentences]
        pairs = zip(plain.sentences, facets, strict=True)
        return replace(plain, sentences=tuple(replace(each, facet=facet) for each, facet in pairs))

    regression = "A kernel regression reads gauges."
    query = labelled("q", ("Floods threaten towns.", Facet.BACKGROUND), (regression, Facet.METHOD))
    background = labelled("background", (regression, Facet.BACKGROUND), ("We ask mayors.", Facet.METHOD))
    method = labelled("method", ("Bakers guess.", Facet.BACKGROUND), ("Kernel regression.", Facet.METHOD))
    neither = labelled("neither", (regression, Facet.RESULT))
    papers = {each.id: each for each in (query, background, method, neither)}
    eval_query = EvalQuery("q:method", query, ("background", "method", "neither"), "q", (1,), "method")
    small = Collection("small", papers, (eval_query,), {eval_query.id: {"method": 1}}, 1, ("MAP",))
    systems = Systems(small, lambda _: VectorSource(hashing, on_progress=ignore))
    anywhere = systems.rank("hashing:single")
    assert "method" == anywhere.ranking(eval_query.id)[-1]
    within = systems.rank("hashing:single:same-facet")
    assert ["neither", "method", "background"] == within.ranking(eval_query.id)
    assert within.scores[eval_query.id]["neither"] == anywhere.scores[eval_query.id]["neither"]
