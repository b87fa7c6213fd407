"""Tests of facet queries by a tagger's labels: the sentences chosen, and queries without any."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.collection import EvalQuery
from evaluation.measurement import Request, load_collection, measure
from evaluation.systems.system import DENSE, VectorSystem
from evaluation.systems.systems import Systems
from evaluation.systems.tagged import tag_queries
from evaluation.systems.vectors import VectorSource
from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.encoder import Encoder
from models.errors import InputError
from models.types import Facet, Paper
from service.search.aspect import Aspect
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from tests.support.annotators import annotated
from tests.support.builds import DEMO_CORPUS
from tests.support.examples.evaluation.set_examples import lines, write
from tests.support.examples.evaluation.system_examples import METHOD, WHOLE, LastIsMethod, collection, ignore

# The collection's method is the first sentence, the tagger's the second.
OTHERWISE = replace(METHOD, selected=(0,))


@pytest.fixture
def systems(hashing: Encoder) -> Callable[..., Systems]:
    """Return a function that makes systems whose tagger labels the last sentence a method."""

    def over(*queries: EvalQuery) -> Systems:
        source = VectorSource(hashing, on_progress=ignore)
        return Systems(collection(*queries), lambda _: source, open_tagger=lambda _: LastIsMethod())

    return over


def without_facets(paper: Paper) -> Paper:
    """Return a paper without id and facets, as a user pastes it."""
    return replace(paper, id="", sentences=tuple(replace(each, facet=None) for each in paper.sentences))


@pytest.mark.parametrize("suffix", ["ot", "ot:focus", "single:focus"])
def test_the_taggers_sentences_are_compared(systems: Callable[..., Systems], suffix: str) -> None:
    """``:tagged`` scores like the plain system on a collection that chooses the tagger's sentences."""
    tagged = systems(OTHERWISE).rank(f"hashing:{suffix}:tagged").scores
    assert systems(METHOD).rank(f"hashing:{suffix}").scores == tagged
    assert systems(OTHERWISE).rank(f"hashing:{suffix}").scores != tagged


def test_facets_that_a_paper_brings_do_not_count(hashing: Encoder) -> None:
    """The labels of the collection are removed before the tagger labels the sentences."""
    labels = (Facet.METHOD, Facet.OTHER)
    sentences = tuple(
        replace(each, facet=facet) for each, facet in zip(METHOD.paper.sentences, labels, strict=True)
    )
    query = replace(OTHERWISE, paper=replace(METHOD.paper, sentences=sentences))
    assert (1,) == tag_queries([query], Annotator(hashing, tagger=LastIsMethod()))[query.id].selected


def test_objectives_count_as_background(hashing: Encoder) -> None:
    """A query for background also takes the sentences tagged objective, as in the service."""
    sentences = ("Floods are frequent.", "We aim at floods.", "We propose a gauge.")
    paper = replace(
        METHOD.paper,
        abstract=" ".join(sentences),
        sentences=tuple(replace(METHOD.paper.sentences[0], text=text) for text in sentences),
    )
    query = replace(METHOD, paper=paper, facet="background")
    assert (0, 1) == tag_queries([query], annotated(hashing))[query.id].selected


def test_a_query_without_a_facet_stays_as_it_is(hashing: Encoder) -> None:
    """Sentences chosen by number, whole abstracts and short texts are not tagged."""
    by_number = replace(METHOD, id="number", facet="all", selected=(0,))
    text = replace(METHOD, id="text", is_text=True)
    queries = [by_number, WHOLE, text]
    assert {each.id: each for each in queries} == tag_queries(
        queries, Annotator(hashing, tagger=LastIsMethod())
    )


def test_without_a_sentence_of_the_facet_nothing_is_ranked(systems: Callable[..., Systems]) -> None:
    """A query without a sentence of its facet is missing from the run, as the service has no answer."""
    results = replace(METHOD, id="q:result", facet="result")
    assert ["q:method"] == list(systems(METHOD, results).rank("hashing:ot:tagged").scores)


def test_unanswered_queries_are_reported(tmp_path: Path) -> None:
    """A note says how many queries a system leaves unanswered, and that they count 0."""
    facets = ["background", "method", "other"]
    papers = [
        {
            "id": f"demo:p0{i}-m00",
            "title": "Tides",
            "abstract": ["Tides rise.", method, "It is."],
            "facets": facets,
        }
        for i, method in enumerate(("We row.", "It is.", "It is."))
    ]
    write(tmp_path, "papers.jsonl", lines(*papers))
    request = Request(systems=("bm25", "bm25-facet"))
    measured = measure("demo", tmp_path, request, on_progress=ignore)
    assert ("bm25-facet leaves 2 queries unanswered, which count 0; the first: demo:p01-m00:method.",) == (
        measured.collection.notes
    )


def test_tagged_focus_is_what_the_service_does(hashed_snapshot: Snapshot, hashing: Encoder) -> None:
    """``ENCODER:ot:focus:tagged:words`` gives the service's scores for a pasted paper that it tags."""
    demo = load_collection("demo", DEMO_CORPUS)
    queries = [query for query in demo.queries if query.facet == "method"][:5]
    source = VectorSource(hashing, snapshot=hashed_snapshot, on_progress=ignore)
    evaluated = Systems(
        replace(demo, queries=tuple(queries)), lambda _: source, open_tagger=lambda _: LastIsMethod()
    )
    ranked = evaluated.rank("hashing:ot:focus:tagged:words")
    annotator = Annotator(hashing, tagger=LastIsMethod())
    engine = SearchEngine(hashed_snapshot, lambda: annotator, n_candidates=100)
    aspect = Aspect(facets=(Facet.METHOD,))
    for query in queries:
        answer = engine.search(
            SearchQuery((Seed(paper=without_facets(query.paper), aspect=aspect),), limit=11)
        )
        expected = {each.paper.id: each.score for each in answer.results if each.paper.id != query.paper.id}
        # The snapshot stores float16, and a pasted paper is encoded in full precision.
        assert pytest.approx(expected, abs=1e-3) == {i: ranked.scores[query.id][i] for i in expected}
        assert set(list(expected)[:5]) <= set(ranked.ranking(query.id)[:7])


def test_tagged_needs_queries_with_a_facet(systems: Callable[..., Systems]) -> None:
    """If no query has a facet, ``names`` lists no tagged system, and ranking with one is an error."""
    ranked = systems(replace(METHOD, facet="all"))
    assert not any("tagged" in name for name in ranked.names(["hashing"]))
    assert any("tagged" in name for name in systems(METHOD).names(["hashing"]))
    with pytest.raises(InputError, match="names a facet"):
        ranked.rank("hashing:ot:tagged")


def test_reports_explain_the_collections_own_choice(systems: Callable[..., Systems]) -> None:
    """Reports mark the collection's sentences, so tagged systems have no plan to show."""
    ranked = systems(OTHERWISE)
    assert (True, False) == tuple(
        VectorSystem("hashing", DENSE[how]).has_plan for how in ("ot:focus", "ot:focus:tagged")
    )
    assert () == ranked.explain(ranked.rank("hashing:ot:tagged"), OTHERWISE, limit=2)
