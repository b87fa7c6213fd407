"""Tests of titles found by remembered or typed parts, and of the two routes for this."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from models.encoder import Encoder
from models.errors import QueryError
from service.app import create_app
from service.resolve.titles import MIN_SIMILARITY, SegmentTitles, Titles, fold, folded
from service.settings import Settings
from tests.support.builds import build_quietly, many_papers, write_corpus

TITLES = [
    "BERT: Pre-training of Deep Bidirectional Transformers",  # 0
    "Attention is All you Need",  # 1
    "Graph Neural Networks",  # 2
    "A Graph of Neural Things",  # 3
    "Graph neural nets for floods",  # 4
    "Évaluation d'un système de traduction",  # 5
    "Bert and Ernie",  # 6
    "数据库系统概论",  # 7
    "???",  # 8
    "Støy i målinger: hva nå?",  # 9
]


def titles_of(*segments: list[str]) -> Titles:
    """Return the titles of a collection of several segments without deleted papers."""
    parts = [SegmentTitles(pa.chunked_array([texts])) for texts in segments]
    return Titles(parts, [np.arange(len(texts)) for texts in segments])


@pytest.fixture(scope="module")
def titles() -> Titles:
    """Return a few titles in two segments."""
    return titles_of(TITLES[:4], TITLES[4:])


def found(titles: Titles, title: str) -> list[int]:
    """Return the positions of the titles most like ``title``."""
    return [match.position for match in titles.like(title, limit=10)]


def test_many_titles_are_named_at_once(titles: Titles) -> None:
    """Titles match if they have the same words; a title without words matches no paper."""
    names = [
        "graph  NEURAL networks!",
        "Graph Networks",
        "???",
        "bert and ernie",
        "",
        "\ud800",
        "数据库系统概论",
    ]
    assert [2, None, None, 6, None, None, 7] == titles.all_named(names)
    assert [] == titles.all_named([])
    several = titles_of(["Floods", "Rivers", "FLOODS!"], ["floods"])
    assert [0, 2, 3] == several.same("floods")
    assert [] == several.same("flood") == several.same("?")


@pytest.mark.parametrize("position", [0, 1, 2, 3, 4, 5, 6, 7, 9])
def test_a_title_finds_itself_whatever_its_case_and_accents(titles: Titles, position: int) -> None:
    """A title finds itself with similarity 1, whatever its case, accents, punctuation and spacing."""
    plain = TITLES[position].upper().replace("É", "E").replace("È", "e").replace(":", " -- ")
    best = titles.like(f"  {plain}!", limit=1)[0]
    assert (position, 1.0) == (best.position, best.similarity)


@pytest.mark.parametrize(
    ("query", "position"),
    [
        ("Atention is al you need", 1),
        ("Graph Nueral Netwroks", 2),
        ("evaluation dun systeme de traduction", 5),
        ("bert pretraining of deep bidirectional transformer", 0),
        ("graph nets neural for floods", 4),
    ],
)
def test_misspellings_are_forgiven(titles: Titles, query: str, position: int) -> None:
    """Wrong, missing or swapped letters and a word out of place still find the title."""
    assert position == found(titles, query)[0]


def test_a_subtitle_may_be_missing(titles: Titles) -> None:
    """The part before the colon also counts as a title; each paper is found once, by its better match."""
    (best,) = titles.like("bert", limit=10)
    assert (0, 1.0) == (best.position, best.similarity)
    whole = titles.like(TITLES[0], limit=10)
    assert [0] == [match.position for match in whole]


def test_a_whole_title_comes_before_the_same_words_with_a_subtitle() -> None:
    """Among equally similar titles those without a subtitle come first, then the order of papers."""
    titles = titles_of(["Floods: a survey", "Floods", "Floods", "Floods: more"])
    matches = titles.like("floods", limit=10)
    assert [(1, 1.0), (2, 1.0), (0, 1.0), (3, 1.0)] == [(m.position, m.similarity) for m in matches]
    assert [1, 2] == [match.position for match in titles.like("floods", limit=2)]


def test_what_is_not_alike_is_not_found(titles: Titles) -> None:
    """All matches reach the least similarity, with the best first; unlike titles are not found."""
    assert [] == titles.like("Photosynthesis in deep-sea vents", limit=10)
    similar = [match.similarity for match in titles.like("graph neural networks for floods", limit=10)]
    assert len(similar) > 1
    assert sorted(similar, reverse=True) == similar
    assert min(similar) >= MIN_SIMILARITY


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("graph neu", [2, 4, 3]),  # titles that begin so, shorter first; then the one that holds the words
        ("neu gra", [2, 3, 4]),  # words in any order, shorter title first
        ("neural thi", [3]),
        ("b", [6, 0]),
        ("trad", [5]),
        ("EVAL", [5]),
        ("maling", [9]),
        ("数据", [7]),
        ("need all att", [1]),
        ("graph zebra", []),
        ("raph", []),
    ],
)
def test_words_begun_find_titles(titles: Titles, typed: str, expected: list[int]) -> None:
    """Each typed word begins a word of the title; titles that begin with the text are first, then shorter."""
    assert expected == titles.beginning(typed, limit=10)
    assert expected[:1] == titles.beginning(typed, limit=1)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("atention is al", [1]),  # a letter missing
        ("Graph Nueral", [2, 4]),  # two swapped; equally alike, so the shorter first
        ("berd ", [6, 0]),
        ("Évaluatoin d'un", [5]),
        ("systems of graphs", []),
        ("xylophone", []),
        ("数居", []),  # half of two characters is too little
    ],
)
def test_mistyped_openings_find_titles(titles: Titles, typed: str, expected: list[int]) -> None:
    """A mistyped beginning finds titles whatever follows it, the most similar first, then the shorter."""
    assert expected == titles.opening_like(typed, limit=10)
    assert expected[:1] == titles.opening_like(typed, limit=1)


def test_titles_of_deleted_papers_open_like_nothing() -> None:
    """Deleted papers are not suggested for mistyped titles."""
    part = SegmentTitles(pa.chunked_array([["Floods of rivers", "Floods of data"]]))
    titles = Titles([part, part], [np.array([1]), np.array([0, 1])])
    assert [1, 3, 2] == titles.opening_like("flodos of", limit=10)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("neural graph", [2, 3, 4]),  # which contain both words, though most are not similar
        ("graph of neural things", [3]),  # nearly the same first
        ("graph neural netwroks", [2, 4]),  # no title has these words, so similar ones
        ("need", [1]),
        ("xylophone", []),
    ],
)
def test_titles_that_contain_the_words_come_before_similar_ones(
    titles: Titles, query: str, expected: list[int]
) -> None:
    """Nearly the same titles come first, then titles with all of the words, then similar ones, each once."""
    best = titles.find(query, limit=10)
    assert expected == [match.position for match in best][: len(expected)]
    assert len(best) == len({match.position for match in best})
    assert all(0 < match.similarity <= 1 for match in best)


def test_unrelated_titles_do_not_push_out_those_with_the_words() -> None:
    """A title that only looks similar comes after the longer ones that contain the words."""
    texts = ["Monte Carlo Parsing", "Chart translation", "Improved left-corner chart parsing for grammars"]
    titles = titles_of([*texts, "Chart parsnig", "Predictive chart parsing: of heads and of corners"])
    assert [3, 2, 4] == [match.position for match in titles.find("chart parsing", limit=3)]
    assert [2, 4] == [match.position for match in titles.find("parsing chart", limit=2)]


@pytest.mark.parametrize("blank", ["", "  ", "?!", "\u200b", "\ud800"])
def test_what_holds_no_word_is_refused(titles: Titles, blank: str) -> None:
    """A text of only punctuation, white space or broken characters is refused."""
    with pytest.raises(QueryError, match="no letter"):
        titles.like(blank, limit=1)
    with pytest.raises(QueryError, match="no letter"):
        titles.beginning(blank, limit=1)
    with pytest.raises(QueryError, match="no letter"):
        titles.opening_like(blank, limit=1)


def test_suggestions_are_what_a_look_at_every_title_gives() -> None:
    """On 2,000 made-up titles, prefixes find the same titles in the same order as a full scan."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcde", k=rng.randint(1, 5))) for _ in range(300)]
    texts = [" ".join(rng.choices(words, k=rng.randint(1, 6))) for _ in range(2_000)]
    titles = titles_of(texts)
    for _ in range(200):
        typed = " ".join(rng.choice(words)[: rng.randint(1, 4)] for _ in range(rng.randint(1, 3)))
        holding = [
            i
            for i, text in enumerate(texts)
            if all(any(word.startswith(start) for word in text.split()) for start in typed.split())
        ]
        holding.sort(key=lambda i: (not texts[i].startswith(typed), len(texts[i]), i))
        assert holding[:10] == titles.beginning(typed, limit=10)


def test_single_texts_are_folded_as_many_are() -> None:
    """The faster path for single texts gives the same words as folding an array."""
    every = "".join(map(chr, range(128)))
    texts = [*every, every, every[::-1], "  A-b_c  9x\x00\x1f", " ... ", ""]
    assert fold(pa.array(texts)).to_pylist() == folded(texts)
    assert ["graph neural nets a e", "evaluation"] == folded(["Graph–neural (nets), A/E!", "Évaluation"])


@given(text=st.text(max_size=60))
def test_any_text_is_answered_or_refused(text: str) -> None:
    """Any text is answered or refused with a `QueryError`, and a title finds itself with similarity 1."""
    titles = titles_of(["Floods", text.encode("utf-8", "replace").decode()])
    try:
        best = titles.like(text, limit=2)
        begun = titles.beginning(text, limit=2)
        opening = titles.opening_like(text, limit=2)
    except QueryError:
        return
    assert 1.0 == best[0].similarity
    assert 1 in begun
    assert 1 in opening


SUGGESTED = {"id": "suggest", "title": "Zebra crossings", "abstract": ["We cross.", "Zebras do too."]}
ODD = {"id": "suggest/2", "title": "Zebras: revisited", "abstract": ["We cross again."]}
ONE_WORD = [
    {"id": f"one/{number}", "title": title, "abstract": ["We read."]}
    for number, title in enumerate(("BERT", "数据库系统概论"), start=1)
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Iterator[TestClient]:
    """Yield a client over 34 papers, one of which has the id ``suggest``."""
    folder = tmp_path_factory.mktemp("titles")
    corpus = write_corpus(folder / "papers.jsonl", [*many_papers(30), SUGGESTED, ODD, *ONE_WORD])
    build_quietly(corpus, folder / "data", hashing)
    app = create_app(Settings(data=folder / "data", device="cpu"))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def answer(client: TestClient, path: str, **params: Any) -> dict[str, Any]:
    """Return the answer to a GET request that must succeed."""
    response = client.get(path, params=params)
    assert 200 == response.status_code, response.text
    content: dict[str, Any] = response.json()
    return content


def test_a_title_is_looked_up(client: TestClient) -> None:
    """A match has the paper's id and title and the similarity, and the answer gives no reason."""
    got = answer(client, "/v1/papers", title="zebra crosings", limit=1)
    (match,) = got["results"]
    assert ("suggest", "Zebra crossings") == (match["paper"]["id"], match["paper"]["title"])
    assert "abstract" not in match["paper"]
    assert 0.9 < match["similarity"] < 1
    assert ("000001", None, None) == (got["generation"], got["reason"], got["detail"])


def test_titles_are_suggested(client: TestClient) -> None:
    """Suggestions are papers, at most ``limit`` of them, also for a mistyped prefix."""
    got = answer(client, "/v1/papers/suggest", prefix="zeb")
    assert ["Zebra crossings", "Zebras: revisited"] == [paper["title"] for paper in got["results"]]
    assert 1 == len(answer(client, "/v1/papers/suggest", prefix="zeb", limit=1)["results"])
    mistyped = answer(client, "/v1/papers/suggest", prefix="zerba cros")
    assert ["Zebra crossings"] == [paper["title"] for paper in mistyped["results"]]


@pytest.mark.parametrize(("path", "name"), [("/v1/papers", "title"), ("/v1/papers/suggest", "prefix")])
def test_nothing_found_has_its_reason(client: TestClient, path: str, name: str) -> None:
    """An empty list comes with a reason for programs and a detail for people."""
    got = answer(client, path, **{name: "xylophone quartz"})
    assert ([], "no_such_title") == (got["results"], got["reason"])
    assert "of the collection" in got["detail"]


def test_all_papers_are_listed(client: TestClient) -> None:
    """Without a title, the pages list every paper once in the order of the corpus."""
    read, params = [], {"limit": 7}
    while True:
        page = answer(client, "/v1/papers", **params)
        assert 34 == page["total"]
        read += [paper["id"] for paper in page["papers"]]
        if page["next_cursor"] is None:
            break
        params = {"limit": 9, "cursor": page["next_cursor"]}
    assert [*(f"p{n}" for n in range(30)), "suggest", "suggest/2", "one/1", "one/2"] == read
    assert "We cross." in page["papers"][-4]["abstract"]


def test_papers_are_filtered_and_counted(hashed_data: Path) -> None:
    """Filters restrict the papers, the total and the pages; parameters may be repeated for several values."""
    with TestClient(create_app(Settings(data=hashed_data, device="cpu"))) as client:
        everything = answer(client, "/v1/papers", limit=100)["papers"]
        first = everything[0]
        cases: list[tuple[dict[str, Any], list[str]]] = [
            (
                {"year_from": 2020, "year_to": 2021},
                [p["id"] for p in everything if p["year"] in {2020, 2021}],
            ),
            ({"authors": [first["authors"][0].upper()]}, [first["id"]]),
            (
                {"fields": ["hydrology", "robotics"]},
                [p["id"] for p in everything if {"Hydrology", "Robotics"} & {*p["fields"]}],
            ),
            ({"venues": [first["venue"]], "year_to": 1900}, []),
            (
                {"has_facets": ["method", "other"]},
                [p["id"] for p in everything if {"method", "other"} <= {s["facet"] for s in p["sentences"]}],
            ),
        ]
        for filters, expected in cases:
            read, cursor = [], None
            while True:
                at = {"limit": 7, **({"cursor": cursor} if cursor else {})}
                page = answer(client, "/v1/papers", **filters, **at)
                assert len(expected) == page["total"], filters
                read += [paper["id"] for paper in page["papers"]]
                cursor = page["next_cursor"]
                if cursor is None:
                    break
            assert expected == read, filters
        cursor = answer(client, "/v1/papers", year_from=2015, limit=1)["next_cursor"]
        assert 422 == client.get("/v1/papers", params={"year_from": 2016, "cursor": cursor}).status_code


def test_cursors_of_searches_list_no_papers(client: TestClient) -> None:
    """A cursor only continues the kind of list that it came from."""
    listed = answer(client, "/v1/papers", limit=1)["next_cursor"]
    searched = client.post("/v1/search", json={"query": {"paper_id": "p1"}, "limit": 1}).json()["next_cursor"]
    assert 422 == client.get("/v1/papers", params={"cursor": searched}).status_code
    body = {"query": {"paper_id": "p1"}, "cursor": listed}
    assert 422 == client.post("/v1/search", json=body).status_code


def test_papers_are_fetched_by_their_names(client: TestClient) -> None:
    """Papers are fetched by id or title in the given order, repeats included, with null for unknown names."""
    names = ["p3", "nobody", "ZEBRA, crossings!", "suggest", "p3"]
    fetched = client.post("/v1/papers/fetch", json={"ids": names}).json()
    found = [None if paper is None else paper["id"] for paper in fetched["papers"]]
    assert (["p3", None, "suggest", "suggest", "p3"], "000001") == (found, fetched["generation"])
    for wrong in ({}, {"ids": []}, {"ids": ["p3"] * 501}, {"ids": [1]}, {"ids": ["x" * 2_001]}):
        assert 422 == client.post("/v1/papers/fetch", json=wrong).status_code


def test_a_title_names_its_paper(client: TestClient) -> None:
    """A paper can be named by its title in a path and in a search; a part of a title names none."""
    assert "suggest" == answer(client, "/v1/papers/zebra crossings")["paper"]["id"]
    by_title, by_id = (
        client.post("/v1/search", json={"query": {"paper_id": name}}).json()["results"]
        for name in ("Zebra Crossings", "suggest")
    )
    assert by_id == by_title
    assert by_id
    for stranger in ("Zebra crossing", "zebra", "? !"):
        assert 404 == client.post("/v1/search", json={"query": {"paper_id": stranger}}).status_code


def test_a_title_of_one_word_names_its_paper(client: TestClient) -> None:
    """A title of one word, or in Chinese, also names its paper; DOIs and other ids are not read as titles."""
    for title, paper_id in (("bert", "one/1"), ("数据库系统概论", "one/2"), ("数据库系统概论!", "one/2")):
        assert paper_id == answer(client, f"/v1/papers/{title}")["paper"]["id"]
        fetched = client.post("/v1/papers/fetch", json={"ids": [title]}).json()["papers"]
        assert [paper_id] == [paper["id"] for paper in fetched]
        assert 200 == client.post("/v1/search", json={"query": {"paper_id": title}}).status_code
    for stranger in ("bertha", "doi:10.1000/bert", "pmid:bert"):
        assert 404 == client.post("/v1/search", json={"query": {"paper_id": stranger}}).status_code


@pytest.mark.parametrize("paper_id", ["suggest", "suggest/2", "p3"])
def test_every_paper_keeps_its_address(client: TestClient, paper_id: str) -> None:
    """A paper is found by its id even if the id is also the name of a route."""
    assert paper_id == answer(client, f"/v1/papers/{paper_id}")["paper"]["id"]


BAD = [
    "/v1/papers?cursor=",
    "/v1/papers?cursor=nonsense",
    "/v1/papers?title=x&cursor=x",
    "/v1/papers?title=",
    "/v1/papers?title=%20",
    "/v1/papers?title=%3F%21",
    "/v1/papers?title=x&limit=0",
    "/v1/papers?title=x&limit=101",
    "/v1/papers?title=x&limit=ten",
    "/v1/papers?title=x&limit=1.0",
    "/v1/papers?title=x&limit=%201",
    "/v1/papers?title=x&limit=" + "9" * 5_000,
    "/v1/papers?title=x&year=2020",
    "/v1/papers?title=x&year_from=2020",
    "/v1/papers?title=x&venues=a",
    "/v1/papers?year_from=abc",
    "/v1/papers?year_from=1.5",
    "/v1/papers?year_from=99",
    "/v1/papers?year_from=2020&year_from=2021",
    "/v1/papers?venues=",
    "/v1/papers?has_facets=colour",
    "/v1/papers?ids=p3",
    "/v1/papers?" + "&".join(["authors=x"] * 101),
    "/v1/papers/suggest?prefix=x&venues=a",
    "/v1/papers?title=x&title=y",
    "/v1/papers?title=" + "x" * 2_001,
    "/v1/papers/suggest?prefix=",
    "/v1/papers/suggest?prefix=%00",
    "/v1/papers/suggest?prefix=" + "x" * 201,
    "/v1/papers/suggest?prefix=x&limit=-1",
    "/v1/papers/suggest?prefix=x&surprise=1",
]


@pytest.mark.parametrize("path", BAD)
def test_a_wrong_parameter_gets_a_problem(client: TestClient, path: str) -> None:
    """An invalid request gets a problem+json of at most 4 kB."""
    response = client.get(path)
    assert (422, "application/problem+json") == (response.status_code, response.headers["content-type"])
    assert response.json()["detail"]
    assert len(response.content) <= 4096


def test_a_long_number_is_out_of_bounds(client: TestClient) -> None:
    """A number of many digits is too large, not something other than a number."""
    for name, most in (("year_from", 2_100), ("limit", 100)):
        detail = client.get(f"/v1/papers?{name}=1{'0' * 30}").json()["detail"]
        assert f"{name} must be at most {most}" in detail


def test_without_such_a_paper_the_prefix_is_named(hashed_data: Path) -> None:
    """If no paper has the id ``suggest``, the 404 of that path explains the prefix parameter."""
    with TestClient(create_app(Settings(data=hashed_data, device="cpu"))) as client:
        response = client.get("/v1/papers/suggest")
    assert 404 == response.status_code
    assert "?prefix=" in response.json()["detail"]
