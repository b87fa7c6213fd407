"""Tests of shared words in searches: their part of the score, its explanation, and papers found by words."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.encoder import Encoder
from models.errors import DeadlineError
from models.text.words import common_stems, count_words, stem_of
from models.transport import Scorer
from models.types import Paper, Sentence
from service.app import create_app
from service.context import with_deadline
from service.search.aspect import Aspect, Part
from service.search.candidates import list_candidates
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from service.search.words import QueryVectors, QueryWords
from service.settings import Settings
from tests.support.answers import explained, warned
from tests.support.builds import build_quietly, many_papers, write_corpus

ID = "demo:p03-m07"


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus under the hashing encoder."""
    with TestClient(create_app(Settings(data=hashed_data, device="cpu"))) as client:
        yield client


def results(client: TestClient, path: str = "search", **body: Any) -> list[dict[str, Any]]:
    """Return the results of a request that must find some."""
    response = client.post(f"/v1/{path}", json=body)
    assert 200 == response.status_code, response.text
    found: list[dict[str, Any]] = response.json()["results"]
    assert found
    return found


@pytest.mark.parametrize("scorer", list(Scorer))
@pytest.mark.parametrize(
    "aspect",
    [
        {},
        {"facet": "method"},
        {"facet": "result"},
        {"sentences": [0, 2]},
        {"facet": "method", "unlike": {"facet": "background"}},
        {"unlike": {"sentences": [1]}},
    ],
)
def test_words_and_alignments_make_the_score(
    client: TestClient, scorer: Scorer, aspect: dict[str, Any]
) -> None:
    """Words and alignments add up to the score, and the terms are words of the paper with shares up to 1."""
    for result in results(client, query={"paper_id": ID}, scorer=scorer, **aspect):
        assert result["score"] == pytest.approx(explained(result), abs=1e-5)
        words, text = result["words"], f"{result['paper']['title']} {result['paper']['abstract']}"
        assert words["weight"] > 0
        assert all(each["term"] in text for each in words["terms"])
        shares = [abs(each["share"]) for each in words["terms"]]
        assert sorted(shares, reverse=True) == shares
        assert sum(shares) <= 1 + 1e-9
        if "unlike" not in aspect:
            assert 0 <= words["distance"] <= 1
            assert min((each["share"] for each in words["terms"]), default=1) > 0


def test_the_weight_given_counts(client: TestClient) -> None:
    """Scores change by the distance times the change of weight; giving the usual weight changes nothing."""
    request = {"query": {"paper_id": ID}, "limit": 100}
    light, heavy, usual = (
        {each["paper"]["id"]: each for each in results(client, **request, **words)}
        for words in ({"words": 0.5}, {"words": 2}, {})
    )
    for paper_id, result in light.items():
        assert heavy[paper_id]["score"] == pytest.approx(result["score"] - 1.5 * result["words"]["distance"])
        assert heavy[paper_id]["words"]["terms"] == result["words"]["terms"]
    weight = next(iter(usual.values()))["words"]["weight"]
    assert list(usual.values()) == results(client, **request, words=weight)


@pytest.mark.parametrize("body", [{}, {"facet": "method"}, {"unlike": {"facet": "background"}}])
def test_switched_off_nothing_is_left_of_them(client: TestClient, body: dict[str, Any]) -> None:
    """With weight 0 the score is that of the alignments, and there are no terms."""
    for result in results(client, query={"paper_id": ID}, words=0, **body):
        assert {"weight": 0.0, "distance": 0.0, "terms": []} == result["words"]
        cells = [*result["alignments"], *result["omitted"]]
        assert result["score"] == pytest.approx(-sum(c["weight"] * c["distance"] for c in cells), abs=1e-5)


def test_seeds_and_negatives_have_words_too(client: TestClient) -> None:
    """With several seeds the words of all count, those of negatives count against, and scores add up."""
    body = {"seeds": [ID, {"text": "graph networks"}], "negatives": ["demo:p05-m05"], "limit": 50}
    found = results(client, "recommendations", **body)
    assert any(each["share"] < 0 for result in found for each in result["words"]["terms"])
    for result in found:
        assert result["score"] == pytest.approx(explained(result), abs=1e-5)
    assert [] == [t for r in results(client, "recommendations", **body, words=0) for t in r["words"]["terms"]]


def test_chosen_sentences_words_count_for_more(client: TestClient) -> None:
    """A facet shifts the weight of words towards its sentences, and a contrast changes it once more."""
    request = {"query": {"paper_id": ID}, "filters": {"ids": ["demo:p00-m07"]}}
    whole, method, apart = (
        results(client, **request, **aspect)[0]["words"]["distance"]
        for aspect in ({}, {"facet": "method"}, {"facet": "method", "unlike": {"facet": "background"}})
    )
    assert len({whole, method, apart}) == 3


@pytest.fixture(scope="module")
def haystack(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a collection of many papers, one of which has a rare name."""
    folder = tmp_path_factory.mktemp("haystack")
    needle = {"id": "needle", "title": "Kelp", "abstract": ["Kelp grows in cold bays.", "We name it ZYGH7."]}
    papers = [*many_papers(300), needle]
    build_quietly(write_corpus(folder / "c.jsonl", papers), folder / "data", hashing)
    return folder / "data"


def test_sentences_that_have_the_whole_share_are_the_only_bag() -> None:
    """Chosen sentences with the whole share are the only bag; otherwise all text is a second bag."""
    paper = Paper("p", "Rivers", "Towns flood.", (Sentence("Towns flood.", 0, 12),))
    (whole,) = QueryWords(paper, (0,), 1.0).bags()
    assert (1.0, count_words("", "Towns flood.")) == whole
    assert [0.75, 0.25] == [share for share, _ in QueryWords(paper, (0,), 0.25).bags()]


@pytest.mark.parametrize("length", [0, 90])
def test_a_rare_name_is_found(haystack: Path, length: int) -> None:
    """A paper that shares only a rare name is among the candidates, however long the query is."""
    snapshot = open_snapshot(haystack)
    assert snapshot.words is not None
    flood = "Rivers flood towns and we forecast the floods with graph networks. " * length
    query = QueryWords(Paper("", "", f"{flood} ZYGH7", ()))
    part = Part(snapshot.vectors(0), (0,), words=query)
    allowed = snapshot.live.copy()

    def found(weight: float) -> list[str]:
        words = QueryVectors(snapshot.words, [query], weight=weight)
        near = list_candidates(snapshot, [part], n_papers=25, first=25, allowed=allowed, words=words)
        return [snapshot.paper(position).id for position in near]

    assert "needle" in found(1.0)
    assert "needle" not in found(0.0)
    allowed[snapshot.position("needle")] = False
    assert "needle" not in found(1.0)
    assert 25 == len(set(found(1.0)))


def test_words_of_many_parts_end_with_the_request(hashed_data: Path) -> None:
    """Counting the words of several seeds stops at the deadline."""
    snapshot = open_snapshot(hashed_data)
    queries = [QueryWords(snapshot.paper(position)) for position in range(3)]
    words = QueryVectors(snapshot.words, queries, weight=1.0)
    with pytest.raises(DeadlineError):
        with_deadline(0, lambda: QueryVectors(snapshot.words, queries, weight=1.0))
    with pytest.raises(DeadlineError):
        with_deadline(0, lambda: words.matched(5, np.ones(3), distance=1.0, paper=snapshot.paper(5)))


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Snapshot:
    """Return papers with a phrase's words apart, one with the phrase and one with a rare name."""
    folder = tmp_path_factory.mktemp("apart")
    papers = [{"id": f"a{i}", "title": f"Rivers {i}", "abstract": ["A delta."]} for i in range(500)]
    papers += [
        {"id": "phrase", "title": "Kelp in bays", "abstract": ["Long talk. " * 90 + "Deltas of rivers."]}
    ]
    papers += [{"id": "name", "title": "Kelp", "abstract": ["Long talk. " * 90 + "We name it ZYGH7."]}]
    build_quietly(write_corpus(folder / "c.jsonl", papers), folder / "data", hashing)
    return open_snapshot(folder / "data")


def candidates(snapshot: Snapshot, text: str, *, away: str = "") -> set[str]:
    """Return the ids of 25 candidates for a text and an unlike text."""
    queries = [QueryWords(Paper("", "", each, ())) for each in (text, away)]
    parts = [
        Part(snapshot.vectors(0), (0,), words=queries[0]),
        Part(snapshot.vectors(0), (0,), True, words=queries[1]),
    ]
    words = QueryVectors(snapshot.words, queries, weight=1.0)
    near = list_candidates(snapshot, parts, n_papers=25, first=25, allowed=snapshot.live, words=words)
    return {snapshot.paper(position).id for position in near}


def test_a_quoted_phrase_is_found(apart: Snapshot) -> None:
    """A quoted phrase is found among many papers with its words apart, unless the unlike text quotes it."""
    assert "phrase" in candidates(apart, 'On the "deltas of rivers"')
    assert "phrase" not in candidates(apart, "On the deltas of rivers")
    assert "phrase" not in candidates(apart, "On the deltas of rivers", away='"deltas of rivers"')


def test_a_phrase_leaves_room_for_a_name(apart: Snapshot) -> None:
    """A quoted phrase of very many papers, a second phrase and a rare name are all found."""
    found = candidates(apart, '"a delta" with ZYGH7 and "deltas of rivers"')
    assert {"phrase", "name"} < found


def test_phrases_end_with_the_request(apart: Snapshot) -> None:
    """The search for phrases stops at the deadline."""
    with pytest.raises(DeadlineError):
        with_deadline(0, lambda: candidates(apart, '"deltas of rivers"'))


def test_no_paper_is_nearer_than_its_own_copy(client: TestClient) -> None:
    """A pasted paper of the collection finds itself with a distance by words of 0, never below."""
    for number in range(10):
        paper = client.get(f"/v1/papers/demo:p0{number}-m07").json()["paper"]
        pasted = {"title": paper["title"], "abstract": paper["abstract"]}
        nearest = results(client, query=pasted, limit=1)[0]
        assert paper["id"] == nearest["paper"]["id"]
        assert nearest["words"]["distance"] == pytest.approx(0, abs=1e-9)
        assert nearest["words"]["distance"] >= 0


@pytest.mark.parametrize("aspect", [Aspect(), Aspect(sentences=(0,))])
def test_few_candidates_hold_the_best(plain_engine: SearchEngine, aspect: Aspect) -> None:
    """The best tenth of the papers by vectors and words holds what a comparison with all papers finds."""
    snapshot = plain_engine.snapshot
    few, all_of_them = (
        SearchEngine(snapshot, plain_engine.load, n_candidates=n) for n in (10, len(snapshot))
    )
    n_found = 0
    sample = range(0, len(snapshot), 3)
    for position in sample:
        query = SearchQuery((Seed(snapshot.paper(position).id, aspect=aspect),), limit=2)
        wanted, found = ([r.paper.id for r in each.search(query).results] for each in (all_of_them, few))
        n_found += len({*wanted} & {*found})
    assert n_found / (2 * len(sample)) > 0.97


def test_pages_go_on_with_words(haystack: Path) -> None:
    """Paging through the results yields every paper exactly once, whether vectors or words found it."""
    settings = Settings(data=haystack, device="cpu", candidates=10)
    body: dict[str, Any] = {"query": {"text": "ZYGH7 graph floods"}, "limit": 40, "include": []}
    ids: list[str] = []
    with TestClient(create_app(settings)) as client:
        while "cursor" not in body or body["cursor"] is not None:
            page = client.post("/v1/search", json=body).json()
            ids += [each["paper"]["id"] for each in page["results"]]
            body["cursor"] = page["next_cursor"]
    assert 301 == len(ids) == len(set(ids))


@pytest.mark.parametrize("words", [-1, "much", 1e7, [1]])
def test_a_wrong_weight_is_refused(client: TestClient, words: object) -> None:
    """A weight that is negative, too large or no number gets 422."""
    for path, body in (("search", {"query": {"paper_id": ID}}), ("recommendations", {"seeds": [ID]})):
        assert 422 == client.post(f"/v1/{path}", json={**body, "words": words}).status_code


@pytest.mark.parametrize(
    "paper",
    [
        {"title": "X", "abstract": "の"},
        {"title": "", "abstract": "the of and"},
        {"title": "Kelp", "abstract": "\u202e🙂"},
        {"title": "", "abstract": ["数据增强方法。", "我们提出一种方法。"]},
        {"title": "Long", "abstract": ["Sentence about floods."] * 200},
        {"title": "Hostile", "abstract": "a" * 9000 + " " + "́" * 500},
    ],
)
def test_odd_papers_are_answered(client: TestClient, paper: dict[str, Any]) -> None:
    """Papers with odd texts are answered, and the score is explained; with terms, the distance is below 1.

    Everyday words of abstracts ("about") count but are not named.
    """
    for result in results(client, query=paper):
        assert result["score"] == pytest.approx(explained(result), abs=1e-5)
        assert 0 <= result["words"]["distance"] <= 1
        assert not result["words"]["terms"] or result["words"]["distance"] < 1


def test_words_of_any_abstract_count_and_are_not_named(client: TestClient) -> None:
    """Everyday words of abstracts count towards the distance but are not named as terms."""
    found = results(client, query={"text": "We propose a novel approach: our results show how rivers flood"})
    near = [result["words"] for result in found if result["words"]["terms"]]
    named = {stem_of(each["term"]) for words in near for each in words["terms"]}
    assert {"flood", "river"} & named
    assert not common_stems() & named
    assert min(sum(each["share"] for each in words["terms"]) for words in near) < 1 - 1e-9
    assert [words for result in found if (words := result["words"])["distance"] < 1 and not words["terms"]]


def test_an_older_collection_says_that_words_do_not_count(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collection made before words were indexed answers by vectors alone, with a warning."""
    with monkeypatch.context() as before:
        before.setattr("indexer.snapshot.segment_writer.write_words", lambda path, papers: None)
        build_quietly(write_corpus(tmp_path / "c.jsonl", many_papers(20)), tmp_path / "data", hashing)
    with TestClient(create_app(Settings(data=tmp_path / "data", device="cpu"))) as client:
        body = {"query": {"paper_id": "p3"}}
        answer = client.post("/v1/search", json=body).json()
        off = client.post("/v1/search", json={**body, "words": 0}).json()
    assert [("words_not_indexed", ["20"])] == warned(answer)
    assert [] == warned(off)
    assert off["results"] == answer["results"]
