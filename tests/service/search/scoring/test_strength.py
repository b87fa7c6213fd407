"""Tests of the strength of a match, relative to the nearest neighbours of the collection's own papers."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.checksums import hash64
from models.encoder import Encoder
from models.errors import DeadlineError, ShardAwayError
from models.transport import Scorer, score_papers
from models.types import Facet, Paper, RankedPaper, Strength, StrengthLabel
from service.context import with_deadline
from service.resolve.text_query import text_paper
from service.search.aspect import Aspect, Contrast, Part
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed, Strategy
from service.search.strength import Respect, Strengths, _measuring, no_good_match, respects_of
from service.search.words import default_weight
from tests.support.annotators import hashing_annotator
from tests.support.answers import warned
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.clients import client_of, search
from tests.support.servers.patience import soon

ID = "demo:p03-m07"
# Strength is measured on this many of the hundred papers.
N_SAMPLED = 32
WHOLE = Respect((), Scorer.OT, 0.15, words=True)
METHOD, BACKGROUND = Aspect(facets=(Facet.METHOD,)), Aspect(facets=(Facet.BACKGROUND,))
UNLIKE = Aspect(facets=(Facet.RESULT,), unlike=Contrast(facets=(Facet.BACKGROUND,)))


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus under the hashing encoder."""
    with client_of(hashed_data) as client:
        yield client


def sampled(snapshot: Snapshot) -> list[int]:
    """Return the positions of the papers that strength is measured on, whose ids have the least hashes."""
    return sorted(snapshot.positions.tolist(), key=lambda i: hash64(snapshot.paper(i).id))[:N_SAMPLED]


def strength_of(strengths: Strengths, reach: float, *, whole: bool = True) -> Strength | None:
    """Return the strength of a whole paper as far as this from a single seed."""
    return strengths.of({WHOLE: [0]}, np.array([reach]), np.ones(1), strategy=Strategy.ANY, whole=whole)


def shares(snapshot: Snapshot, query: int) -> np.ndarray:
    """Return the single-match distances of all papers from one, divided by the mean of the others sampled."""
    sample = [each for each in sampled(snapshot) if each != query]
    rows = snapshot.gather(snapshot.positions)[0]
    distances = -score_papers(snapshot.vectors(query), rows, snapshot.offsets, scorer=Scorer.SINGLE).scores
    return distances / distances[sample].mean()


def test_a_result_is_held_against_nearest_neighbours(plain_engine: SearchEngine) -> None:
    """``nearer_than`` is the share of sampled papers whose nearest neighbour is relatively farther away."""
    snapshot = plain_engine.snapshot
    assert 100 == len(snapshot)
    scale = [np.delete(shares(snapshot, each), each).min() for each in sampled(snapshot)]
    query = SearchQuery((Seed(snapshot.paper(5).id),), scorer=Scorer.SINGLE, words=0.0, limit=99)
    reaches = shares(snapshot, 5)
    for result in plain_engine.search(query).results:
        assert result.strength is not None
        reach = reaches[snapshot.position(result.paper.id)]
        expected = np.mean([each > reach + 1e-9 for each in scale])
        assert result.strength.nearer_than == pytest.approx(expected, abs=1e-9)
        label = "strong" if expected >= 0.5 else "fair" if expected >= 0.05 else "weak"
        assert label == result.strength.label


@pytest.mark.parametrize("facet", [None, Facet.METHOD, Facet.OBJECTIVE])
def test_a_text_is_held_against_single_sentences(plain_engine: SearchEngine, facet: Facet | None) -> None:
    """A text is held against the sampled papers' longest sentences of the facet, matched among themselves."""
    snapshot = plain_engine.snapshot
    having = [
        [number for number, sentence in enumerate(paper.sentences) if facet in {None, sentence.facet}]
        for paper in (snapshot.paper(position) for position in snapshot.positions.tolist())
    ]
    kept = [position for position, numbers in enumerate(having) if numbers]
    sample = sorted(kept, key=lambda i: hash64(snapshot.paper(i).id))[:N_SAMPLED]
    # Few of the papers usually sampled have an objective, so more papers are looked at for it.
    assert facet is not Facet.OBJECTIVE or len(set(sample) & set(sampled(snapshot))) < 16 < len(sample)

    def reaches(vector: np.ndarray, own: int | None = None) -> dict[int, float]:
        nearest = {
            position: float(
                np.linalg.norm(snapshot.vectors(position)[having[position]] - vector, axis=1).min()
            )
            for position in kept
        }
        usual = np.mean([nearest[position] for position in sample if position != own])
        return {position: distance / usual for position, distance in nearest.items()}

    scale = []
    for own in sample:
        longest = max(having[own], key=lambda number: len(snapshot.paper(own).sentences[number].text))
        others = reaches(snapshot.vectors(own)[longest], own)
        scale.append(min(reach for position, reach in others.items() if position != own))
    text = "A text about floods and sepsis, which is like nothing in particular."
    (encoded,) = plain_engine.annotator.encoder.encode([text_paper(text)])
    found = reaches(encoded.sentences[0])
    seed = Seed(text=text, aspect=Aspect(facets=() if facet is None else (facet,)))
    answer = plain_engine.search(SearchQuery((seed,), scorer=Scorer.SINGLE, words=0.0, limit=99))
    assert len(kept) - (len(kept) == 100) == len(answer.results)
    for result in answer.results:
        reach = found[snapshot.position(result.paper.id)]
        assert result.strength is not None
        expected = np.mean([each > reach + 1e-6 for each in scale])
        assert result.strength.nearer_than == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "aspect",
    [Aspect(), Aspect(facets=(Facet.METHOD,), unlike=Contrast(facets=(Facet.BACKGROUND,)))],
    ids=["whole", "contrast"],
)
def test_the_nearest_neighbours_are_found_as_a_search_finds_them(
    plain_engine: SearchEngine, aspect: Aspect
) -> None:
    """The scale's neighbours are the first results of searches, by words and with the unlike side too."""
    snapshot = plain_engine.snapshot
    sample = snapshot.sample(N_SAMPLED, aspect.facets) if aspect.facets else sampled(snapshot)
    queries = (SearchQuery((Seed(snapshot.paper(int(each)).id, aspect=aspect),), limit=1) for each in sample)
    found = [plain_engine.search(query).results[0].strength for query in queries]
    ranks = sorted(each.nearer_than for each in found if each is not None)
    assert np.arange(N_SAMPLED) / N_SAMPLED == pytest.approx(ranks)


def test_papers_that_cannot_be_contrasted_are_not_in_the_scale(tmp_path: Path, hashing: Encoder) -> None:
    """A sampled paper whose sentences are all to be unlike is left out of the scale."""
    papers = [
        {
            "id": f"p{number}",
            "title": f"Paper {number}",
            "abstract": [f"Floods {number} rise.", f"We fit graph {number}."],
            "facets": ["background", "background" if number % 4 == 0 else "method"],
        }
        for number in range(40)
    ]
    build_quietly(write_corpus(tmp_path / "c.jsonl", papers), tmp_path / "data", hashing)
    with client_of(tmp_path / "data") as client:
        results = search(client, query={"paper_id": "p1"}, unlike={"facet": "background"})["results"]
    assert 10 == len(results)
    assert all(each["strength"] for each in results)


def test_strength_descends_and_stays_on_every_page(client: TestClient) -> None:
    """Strength falls with the score, and a paper has the same strength on every page."""
    request = {"query": {"paper_id": ID}, "include": []}
    whole = search(client, **request, limit=40)["results"]
    nearness = [each["strength"]["nearer_than"] for each in whole]
    assert sorted(nearness, reverse=True) == nearness
    assert nearness[0] > nearness[-1]
    first = search(client, **request, limit=15)
    second = search(client, **request, limit=25, cursor=first["next_cursor"])
    strengths = {each["paper"]["id"]: each["strength"] for each in whole}
    for each in (*first["results"], *second["results"]):
        assert strengths[each["paper"]["id"]] == each["strength"]


def test_what_is_to_be_unlike_makes_no_match_weaker(plain_engine: SearchEngine) -> None:
    """With the unlike side a match is as strong or stronger, as the neighbours are farther."""
    found = []
    for unlike in (None, Contrast(facets=(Facet.BACKGROUND,))):
        seed = Seed(ID, aspect=Aspect(facets=(Facet.METHOD,), unlike=unlike))
        answer = plain_engine.search(SearchQuery((seed,), words=0.0, limit=99))
        found.append({each.paper.id: each.strength.nearer_than for each in answer.results if each.strength})
    plain, contrast = found
    assert plain.keys() == contrast.keys()
    assert all(plain[name] <= contrast[name] for name in plain)
    assert plain != contrast


@pytest.mark.parametrize(
    "changed",
    [
        {"tau": 0.02},
        {"specificity": 0.0},
        {"words": 0.01},
        {"seeds": (Seed(ID, aspect=Aspect(focus=1.0)),)},
        {"seeds": (Seed(ID, aspect=Aspect(unlike=Contrast(sentences=(0,)))),)},
        {"seeds": (Seed(ID, aspect=Aspect(unlike=Contrast(facets=(Facet.BACKGROUND,), weight=0.9))),)},
        {"seeds": (Seed("demo:p03-m06"), Seed(ID, aspect=Aspect(focus=1.0)))},
    ],
)
def test_a_match_that_no_scale_is_measured_like_has_no_strength(
    plain_engine: SearchEngine, changed: dict[str, Any]
) -> None:
    """A query with its own focus, temperature, specificity, weight of words or contrast has no strength."""
    query = SearchQuery((Seed(ID),))
    same = replace(query, words=default_weight(plain_engine.snapshot.manifest.encoder))
    usual, explicit, other = (plain_engine.search(each) for each in (query, same, replace(query, **changed)))
    assert all(usual_one.strength for usual_one in usual.results)
    assert [each.strength for each in usual.results] == [each.strength for each in explicit.results]
    assert {None} == {each.strength for each in other.results}


def test_a_weak_first_result_is_no_good_match(tmp_path: Path, hashing: Encoder) -> None:
    """If every paper has a twin, the first page of another query warns of weak matches; so does the page."""
    papers = many_papers(30)
    twins = [{**each, "id": f"{each['id']}-again"} for each in papers]
    build_quietly(write_corpus(tmp_path / "c.jsonl", [*papers, *twins]), tmp_path / "data", hashing)
    with client_of(tmp_path / "data") as client:
        answer = search(client, query={"text": "Whales sing."})
        further = search(client, query={"text": "Whales sing."}, cursor=answer["next_cursor"])
        html = client.get("/?text=Whales sing.").text
        twin = search(client, query={"paper_id": "p3"}, limit=1)
    assert {"weak"} == {each["strength"]["label"] for each in answer["results"]}
    assert ("no_good_match", ["weak"]) in warned(answer)
    assert [] == warned(further)
    assert {"weak match"} == set(re.findall(r'class="strength[^>]*>([^<]*)<', html))
    assert "There is no good match" in html
    assert ("p3-again", []) == (twin["results"][0]["paper"]["id"], warned(twin))
    assert "weak" != twin["results"][0]["strength"]["label"]


def test_a_page_with_one_good_result_has_no_warning() -> None:
    """There is no good match only if all results are weak, not if the first one is."""
    weak, fair = Strength(StrengthLabel.WEAK, 0.0), Strength(StrengthLabel.FAIR, 0.2)
    paper = Paper("x", "X", "", ())
    assert not list(no_good_match([RankedPaper(paper, 0.0, strength=each) for each in (weak, fair)]))
    assert list(no_good_match([RankedPaper(paper, 0.0, strength=each) for each in (weak, weak)]))


def test_recommendations_have_strengths(client: TestClient) -> None:
    """Recommendations for several seeds with negatives have strengths."""
    body = {"seeds": [ID, "demo:p05-m05"], "negatives": ["demo:p00-m00"], "limit": 5}
    results = client.post("/v1/recommendations", json=body).json()["results"]
    assert 5 == len(results)
    assert all(0 <= each["strength"]["nearer_than"] <= 1 for each in results)


def apart(snapshot: Snapshot, *given: Seed) -> list[Seed]:
    """Return the seeds as three papers on different subjects that strength is not measured on."""
    positions = np.setdiff1d(snapshot.positions, sampled(snapshot))[[0, 20, 40]].tolist()
    names = [snapshot.paper(each).id for each in positions]
    return [
        seed if seed.text else replace(seed, paper_id=name) for name, seed in zip(names, given, strict=True)
    ]


def nearer_than(engine: SearchEngine, *seeds: Seed, **changed: Any) -> dict[str, float]:
    """Return how strong each paper is, for these seeds together."""
    found = engine.search(SearchQuery(seeds, limit=99, **changed)).results
    return {each.paper.id: each.strength.nearer_than for each in found if each.strength}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((Seed(), Seed(), Seed()), None),
        ((Seed(aspect=METHOD), Seed(aspect=BACKGROUND), Seed()), None),
        ((Seed(aspect=METHOD), Seed(aspect=UNLIKE), Seed()), None),
        ((Seed(text="Sepsis in floods.", aspect=METHOD), Seed(aspect=METHOD), Seed()), 0.0),
    ],
    ids=["whole", "facets", "contrast", "text"],
)
def test_a_result_is_as_strong_as_from_its_nearest_seed(
    plain_engine: SearchEngine, given: tuple[Seed, ...], words: float | None
) -> None:
    """A paper near to one seed of several interests is as strong a match as for that seed alone."""
    seeds = apart(plain_engine.snapshot, *given)
    alone = [nearer_than(plain_engine, each, words=words) for each in seeds]
    together = nearer_than(plain_engine, *seeds, words=words)
    expected = {name: max(own.get(name, 0.0) for own in alone) for name in together}
    assert len(together) > 80
    assert max(expected.values()) > 0.5
    assert expected == pytest.approx(together)
    together_all = nearer_than(plain_engine, *seeds, words=words, strategy=Strategy.ALL)
    assert max(together_all.values()) < max(together.values())


@pytest.mark.parametrize(
    ("other", "tolerance"),
    [
        (Respect((Facet.METHOD,), Scorer.OT, 0.15, words=True), 1e-9),
        (Respect((Facet.OBJECTIVE,), Scorer.OT, 0.15, words=True, text=True), 0.06),  # fewer papers have it
    ],
    ids=["method", "text"],
)
def test_a_match_equally_strong_for_each_seed_is_so_for_all(
    plain_engine: SearchEngine, other: Respect, tolerance: float
) -> None:
    """If a paper must be like all seeds, their distances and their scales are averaged in the same way."""
    reaches = np.linspace(0.5, 1.0, 1500)
    of, one = plain_engine.strengths.of, np.ones(1)

    def levels(respect: Respect) -> np.ndarray:
        found = [of({respect: [0]}, reaches[[i]], one, strategy=Strategy.ALL) for i in range(len(reaches))]
        return np.array([each.nearer_than for each in found if each])

    first, second = levels(WHOLE), levels(other)
    respects, n_compared = {WHOLE: [0, 1], other: [2]}, 0
    for level in np.unique(first):
        near, far = np.argmin(abs(first - level)), np.argmin(abs(second - level))
        if second[far] == pytest.approx(level, abs=tolerance):
            own = reaches[[near, near, far]]
            match = of(respects, own, np.array([0.2, 0.3, 0.5]), strategy=Strategy.ALL)
            assert match is not None
            assert match.nearer_than == pytest.approx(level, abs=tolerance)
            n_compared += 1
    assert n_compared > 20


def test_a_weak_match_may_be_related(plain_engine: SearchEngine) -> None:
    """A paper too far for a nearest neighbour is related if it is no farther than usual fifth neighbours."""
    results = plain_engine.search(SearchQuery((Seed(ID),), limit=99)).results
    strengths = [each.strength for each in results if each.strength]
    assert all(each.related for each in strengths if each.label is not StrengthLabel.WEAK)
    assert {True, False} == {each.related for each in strengths if each.label is StrengthLabel.WEAK}
    n_related = sum(each.related for each in strengths)
    assert 5 <= n_related < 50


def test_a_facet_that_too_few_papers_have_makes_no_scale(client: TestClient) -> None:
    """Only eleven demo papers have a sentence of the facet other, too few for a scale."""
    known = search(client, query={"text": "code"}, facet="objective")["results"]
    assert known
    assert all(each["strength"] is not None for each in known)
    few = search(client, query={"text": "code"}, facet="other")["results"]
    assert few
    assert not [each for each in few if each["strength"] is not None]
    body = {"seeds": [ID, {"text": "code", "facet": "other"}]}
    beside = client.post("/v1/recommendations", json=body).json()["results"]
    assert beside
    assert not [each for each in beside if each["strength"] is not None]


@pytest.mark.parametrize(("n_respects", "known"), [(16, True), (17, False)])
def test_a_query_in_many_respects_measures_no_scale(
    plain_engine: SearchEngine, n_respects: int, known: bool
) -> None:
    """Seeds may differ in up to sixteen sets of facets; with more, nothing is measured."""
    usual = [Facet.BACKGROUND, Facet.OBJECTIVE, Facet.METHOD, Facet.RESULT, Facet.OTHER]
    sets = [facets for size in (1, 2, 3) for facets in combinations(usual, size)][:n_respects]
    parts = [Part(np.ones((1, 2), np.float32), (0,), seed=number) for number in range(n_respects)]
    query = SearchQuery(tuple(Seed(ID, aspect=Aspect(facets=facets)) for facets in sets))
    spec = plain_engine.snapshot.manifest.encoder
    assert known == bool(respects_of(query, parts, spec, tau=0.15, words=0.0))


@pytest.mark.parametrize(("n_papers", "known"), [(10, False), (16, True)])
def test_few_papers_make_no_scale(tmp_path: Path, hashing: Encoder, n_papers: int, known: bool) -> None:
    """Below 16 papers a collection is too small for a scale, and no strength is given."""
    build_quietly(write_corpus(tmp_path / "c.jsonl", many_papers(n_papers)), tmp_path / "data", hashing)
    strengths = Strengths(open_snapshot(tmp_path / "data"), str(tmp_path).encode())
    strength = strength_of(strengths, 0.0)
    assert (strength is not None) is known
    assert strength is None or strength.label is StrengthLabel.STRONG


def test_a_scale_is_measured_within_the_deadline(plain_engine: SearchEngine) -> None:
    """A scale that ran into the deadline is measured completely by the next request."""
    strengths = Strengths(plain_engine.snapshot, b"late")
    with pytest.raises(DeadlineError):
        with_deadline(0, lambda: strength_of(strengths, 0.5))
    assert strength_of(strengths, 0.5) == strength_of(Strengths(plain_engine.snapshot, b"again"), 0.5)


def test_measuring_goes_on_after_a_deadline(
    plain_engine: SearchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a search has measured of a scale before its deadline is not measured again by the next one."""
    strengths = Strengths(plain_engine.snapshot, b"goes on")
    expected = strength_of(Strengths(plain_engine.snapshot, b"in one go"), 0.5)
    measure, tried = Strengths._reach, list[int]()

    def ended_at_the_eleventh(strengths: Strengths, position: int, respect: Respect) -> float | None:
        tried.append(position)
        if len(tried) == 11:
            raise DeadlineError("The search took too long.")
        return measure(strengths, position, respect)

    monkeypatch.setattr(Strengths, "_reach", ended_at_the_eleventh)
    with pytest.raises(DeadlineError):
        strength_of(strengths, 0.5)
    assert expected == strength_of(strengths, 0.5)
    assert (N_SAMPLED + 1, N_SAMPLED) == (len(tried), len(set(tried)))


def test_a_scale_that_several_searches_need_is_measured_once(
    plain_engine: SearchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If eight threads need a scale at once, one measures it and all use it."""
    measured, measure = [], Strengths._measured
    joined = _measuring.n_joined

    def measured_once(strengths: Strengths, key: tuple[bytes, Respect]) -> np.ndarray:
        measured.append(key[1])
        soon(lambda: _measuring.n_joined == joined + 7)
        return measure(strengths, key)

    monkeypatch.setattr(Strengths, "_measured", measured_once)
    strengths = [Strengths(plain_engine.snapshot, b"at once")] * 8
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda each: strength_of(each, 0.5), strengths))
    assert ([WHOLE], 1) == (measured, len(set(found)))


def test_a_generation_opened_again_is_not_measured_again(tmp_path: Path, hashing: Encoder) -> None:
    """A generation opened again has its scale at once, even in another folder; other papers are measured."""

    def measured(data: str, *, deadline_s: float) -> Strength | None:
        engine = SearchEngine(open_snapshot(tmp_path / data), hashing_annotator, n_candidates=20)
        return with_deadline(deadline_s, lambda: strength_of(engine.strengths, 0.4))

    for n_papers in (20, 40):
        # No other test has measured these papers.
        papers = [{**each, "title": f"Again: {each['title']}"} for each in many_papers(n_papers)]
        corpus = write_corpus(tmp_path / "c.jsonl", papers)
        for data in (f"{n_papers}", f"{n_papers} again"):
            build_quietly(corpus, tmp_path / data, hashing)
        with pytest.raises(DeadlineError):
            measured(f"{n_papers}", deadline_s=0)
        first = measured(f"{n_papers}", deadline_s=60)
        assert first is not None
        assert first == measured(f"{n_papers}", deadline_s=0) == measured(f"{n_papers} again", deadline_s=0)


@pytest.mark.parametrize("name", ["10.1000/not-there", "arxiv:2101.99999", "https://example.org/a-paper"])
def test_a_name_that_nobody_has_is_not_searched_for_as_a_text(client: TestClient, name: str) -> None:
    """A text that names an unknown paper is not searched for; the page says that the paper is missing."""
    response = client.get("/", params={"text": name})
    assert 404 == response.status_code
    assert "not in this collection" in response.text


def test_what_cannot_be_measured_now_is_no_fact(
    plain_engine: SearchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a shard goes away during a search, the search starts again on the rest, without strengths."""
    snapshot = plain_engine.snapshot
    engine = SearchEngine(snapshot, lambda: plain_engine.annotator, n_candidates=20)
    monkeypatch.setattr(SearchEngine, "strengths", Strengths(snapshot, b"measured never"))
    looks = iter([frozenset[int]()])
    monkeypatch.setattr(Snapshot, "away", property(lambda _: next(looks, frozenset({0}))))
    monkeypatch.setattr(Snapshot, "papers_of", lambda *_: np.arange(len(snapshot.live)) < 10)
    answer = engine.search(SearchQuery((Seed(snapshot.paper(20).id),)))
    assert 0.9 == pytest.approx(answer.coverage)
    assert {None} == {each.strength for each in answer.results}
    with pytest.raises(ShardAwayError):
        strength_of(engine.strengths, 0.5)
    assert strength_of(engine.strengths, 0.5, whole=False) is None
