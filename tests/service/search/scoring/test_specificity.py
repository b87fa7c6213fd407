"""Tests of specificity: common sentences count less, except sentences chosen by number."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.checksums import hash64
from models.types import EncoderSpec, Facet, Unit
from service.search.aspect import Aspect, default_specificity, specificity_weights
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from tests.support.clients import client_of, search
from tests.support.sentence_engines import small_engine

NOTICE = "Our code is publicly available."
CLAIM = "Sparse graphs forecast the floods of rivers."


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, sentence_annotator: Annotator) -> SearchEngine:
    """Return an engine over 40 papers, half of which end in the same notice, and one with the claim."""
    papers: list[dict[str, object]] = [
        {
            "id": f"p{i}",
            "title": f"Topic {i}",
            "abstract": [f"Word{i} meets thing{i}.", f"Case{i} is{i} so{i}."],
        }
        for i in range(40)
    ]
    for paper in papers[::2]:
        paper["abstract"] = [f"{paper['title']} holds.", NOTICE]
    papers.append({"id": "near", "title": "Floods", "abstract": [CLAIM, "Wholly other matters end it."]})
    papers.append({"id": "query", "title": "Rivers", "abstract": [CLAIM, NOTICE]})
    return small_engine(tmp_path_factory.mktemp("specificity"), sentence_annotator, papers)


def shares(engine: SearchEngine, **options: object) -> tuple[str, float]:
    """Return the first paper found by the query paper, and the mean share of the notice in the matches."""
    seed = Seed("query", aspect=options.pop("aspect", Aspect()))  # type: ignore[arg-type]
    results = engine.search(SearchQuery((seed,), words=0.0, limit=30, **options)).results  # type: ignore[arg-type]
    held = [sum(cell.weight for cell in each.alignments if cell.query_sentence == 1) for each in results]
    return results[0].paper.id, float(np.mean(held))


def test_the_nearest_twentieth_of_the_papers_tells() -> None:
    """A sentence counts by its mean distance to the nearest twentieth of the papers, here two of 30."""
    generator = np.random.default_rng(3)
    query, rows = (generator.normal(size=(n, 8)).astype(np.float32) for n in (3, 30))
    weights = specificity_weights(query, rows, np.arange(31, dtype=np.int64), specificity=2.0)
    apart = np.sort(np.linalg.norm(query[:, None] - rows[None], axis=2), axis=1)
    np.testing.assert_allclose(weights, 2 * apart[:, :2].mean(axis=1), rtol=1e-5)


def test_a_notice_that_half_the_papers_have_holds_less(engine: SearchEngine) -> None:
    """A sentence that is near many papers loses a part of the match to a more specific one."""
    assert default_specificity(engine.snapshot.manifest.encoder) > 0
    first, held = shares(engine)
    _, plain = shares(engine, specificity=0.0)
    assert "near" == first
    assert 1 - held > 1.5 * (1 - plain) > 0


def test_sentences_picked_by_number_count_alike(engine: SearchEngine) -> None:
    """Sentences chosen by number count alike; those chosen by facet do not."""
    picked = Aspect(sentences=(0, 1))
    assert shares(engine, aspect=picked) == shares(engine, aspect=picked, specificity=0.0)
    facets = Aspect(facets=tuple(Facet))
    assert shares(engine, aspect=facets) != shares(engine, aspect=facets, specificity=0.0)


def test_what_to_be_unlike_counts_as_it_is(engine: SearchEngine) -> None:
    """Sentences of negatives do not lose weight by being common."""
    # All papers: which of them are the first 30 depends on the weights of what is to be like.
    away = SearchQuery((Seed("p1"),), negatives=(Seed("query"),), words=0.0, limit=50)
    held = []
    for specificity in (0.0, None):
        results = engine.search(replace(away, specificity=specificity)).results
        cells = {each.paper.id: [cell for cell in each.alignments if cell.negative] for each in results}
        notice = {name: sum(c.weight for c in own if c.query_sentence == 1) for name, own in cells.items()}
        held.append({name: notice[name] / sum(c.weight for c in own) for name, own in cells.items()})
    assert held[0] == pytest.approx(held[1], abs=1e-9)
    assert max(held[0].values()) > 0.1


def test_weights_are_mean_distances_to_the_nearest(engine: SearchEngine) -> None:
    """Among 42 papers the nearest two count, each by its nearest sentence."""
    snapshot = engine.snapshot
    query = snapshot.vectors(snapshot.position("query"))
    rows, offsets = snapshot.gather(snapshot.positions)
    expected = []
    for vector in query:
        near = [np.linalg.norm(own - vector, axis=1).min() for own in np.split(rows, offsets[1:-1])]
        expected.append(8 * np.mean(sorted(near)[:2]))
    weights = specificity_weights(query, rows, offsets, specificity=8.0)
    assert weights is not None
    np.testing.assert_allclose(weights, expected, atol=1e-5)


@pytest.mark.parametrize(("n_query", "n_papers", "specificity"), [(1, 40, 8.0), (2, 9, 8.0), (2, 40, 0.0)])
def test_where_nothing_is_known_all_count_alike(n_query: int, n_papers: int, specificity: float) -> None:
    """With one sentence, few papers or a weight of 0, all sentences count alike."""
    rows = np.random.default_rng(0).normal(size=(n_papers, 4)).astype(np.float32)
    offsets = np.arange(n_papers + 1)
    assert specificity_weights(rows[:n_query], rows, offsets, specificity=specificity) is None


def test_raw_vectors_are_not_weighed() -> None:
    """Raw vectors have a default specificity of 0, because no other value was measured for them."""
    assert 0 == default_specificity(EncoderSpec("raw", "f", 8, False, Unit.SENTENCE))


def test_the_sample_is_of_the_least_hashes(hashed_snapshot: Snapshot) -> None:
    """The sample is the papers with the least hashes of ids, among those with a given facet if any."""
    ids = sorted((hashed_snapshot.paper(int(i)).id for i in hashed_snapshot.positions), key=hash64)
    for n_papers in (0, 7, 100):
        assert ids[:n_papers] == [hashed_snapshot.paper(int(i)).id for i in hashed_snapshot.sample(n_papers)]
    papers = [hashed_snapshot.paper(int(i)) for i in hashed_snapshot.positions]
    aims = {paper.id for paper in papers if any(each.facet is Facet.OBJECTIVE for each in paper.sentences)}
    assert [each for each in ids if each in aims][:7] == [
        hashed_snapshot.paper(int(i)).id for i in hashed_snapshot.sample(7, [Facet.OBJECTIVE])
    ]


def test_requests_say_how_much_it_counts(hashed_data: Path) -> None:
    """A request may set the specificity; a value out of range gets 422 with the name of the field."""
    with client_of(hashed_data) as client:
        plain = search(client, query={"paper_id": "demo:p03-m07"}, specificity=0, words=0)
        usual = search(client, query={"paper_id": "demo:p03-m07"}, words=0)
        given = search(client, query={"paper_id": "demo:p03-m07"}, words=0, specificity=8)
        assert usual["results"] == given["results"] != plain["results"]
        _refused(client, "/v1/search", query={"paper_id": "demo:p03-m07"}, specificity=-1)
        _refused(client, "/v1/recommendations", seeds=["demo:p03-m07"], specificity=101)


def _refused(client: TestClient, path: str, **body: object) -> None:
    response = client.post(path, json=body)
    assert 422 == response.status_code
    assert "specificity" in response.text
