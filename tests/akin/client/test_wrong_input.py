"""Tests of wrong arguments: they raise Akin's own errors, with a client and with a collection."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pandas as pd
import pytest

import akin
from akin.client.retries import Retries
from akin.local.collection import Collection
from models.errors import InputError, ServiceError
from service.app import create_app
from service.settings import Settings
from tests.support.servers.loopback import served

DOTS = (".", "..")
MISTAKES: dict[str, Callable[[Any], object]] = {
    "a text to encode": lambda papers: papers.embed("abc"),
    "a list of texts to encode": lambda papers: papers.embed(["abc"]),
    "a number as seed": lambda papers: papers.recommend(5),
    "numbers as seeds": lambda papers: papers.recommend([5], facet="method"),
    "a facet as unlike of recommend": lambda papers: papers.recommend(["."], unlike={"facet": "background"}),
    "a table of seeds": lambda papers: papers.recommend(pd.DataFrame({"id": ["."]})),
    "no title": lambda papers: papers.find_papers(None),
    "numbers to compare": lambda papers: papers.compare(1, 2),
    "conflicts that are no pairs": lambda papers: papers.match(["."], {"p": ["."]}, conflicts=[1]),
    "a list of profiles": lambda papers: papers.match(["."], ["p"]),
    "quotas that are a list": lambda papers: papers.match(["."], {"p": ["."]}, quotas=["p"]),
    "a text as a batched match": lambda papers: batch(papers, match="floods"),
    "a batched match without submissions": lambda papers: batch(papers, match={"profiles": {"p": ["."]}}),
    "a batched match without profiles": lambda papers: batch(papers, match={"submissions": ["."]}),
    "a text as a saved search": lambda papers: papers.save_query("x", search="floods"),
    "a text as saved recommendations": lambda papers: papers.save_query("x", recommendations="floods"),
    "a number as id": lambda papers: papers.paper(5),
    "no id": lambda papers: papers.paper(None),
    "a number as id of vectors": lambda papers: papers.vectors(5),
    "a name too long for an address": lambda papers: papers.paper("x" * 5_001),
    "an empty name": lambda papers: papers.papers([".", ""]),
    "an empty name to delete": lambda papers: papers.delete(""),
    "an empty name of vectors": lambda papers: papers.vectors(""),
    "a number as saved query": lambda papers: papers.saved_query(5),
    "a number as saved query to delete": lambda papers: papers.delete_query(5),
    "a number as saved query with news": lambda papers: papers.new_papers(5),
    "a text as limit of a list": lambda papers: papers.list_papers(limit="3"),
    "a text as limit of news": lambda papers: papers.new_papers("x", limit="3"),
    "a number as venue": lambda papers: papers.list_papers(venues=5),
    "numbers as authors": lambda papers: papers.list_papers(authors=[5]),
    "half a character": lambda papers: papers.paper("\ud83d"),
    "half a character to delete": lambda papers: papers.delete("\ud83d"),
}


def batch(papers: Any, **given: Any) -> object:
    """Start a batch; a collection has none."""
    if isinstance(papers, Collection):
        raise InputError("no batches")
    return papers.batch(**given)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a collection whose paper ids ("." and "..") are path steps in a URL."""
    data = tmp_path_factory.mktemp("wrong") / "data"
    papers = [
        {"id": name, "title": f"Title {n}", "abstract": f"We show {n}.", "venue": "Nature"}
        for n, name in enumerate(DOTS)
    ]
    akin.index(papers, data, encoder="hashing", device="cpu").close()  # type: ignore[arg-type]  # as programs do
    return data


@pytest.fixture(scope="module")
def client(data: Path) -> Iterator[akin.Client]:
    """Yield a client of a service over that collection."""
    with (
        served(create_app(Settings(data=data, device="cpu", keyless="write"))) as address,
        akin.Client(address) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def collection(data: Path) -> Iterator[Collection]:
    """Yield the same collection, opened in this process."""
    with akin.open(data) as collection:
        yield collection


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_plausible_mistakes(
    client: akin.Client, collection: Collection, mistake: Callable[[Any], object]
) -> None:
    """Each plausible mistake raises ``InputError``, with a client and with a collection."""
    for papers in (client, collection):
        with pytest.raises(InputError):
            mistake(papers)


@pytest.mark.parametrize("fixture", ["client", "collection"])
def test_one_name_is_a_list_of_it(fixture: str, request: pytest.FixtureRequest) -> None:
    """A single venue is accepted instead of a list of venues."""
    papers = request.getfixturevalue(fixture)
    assert 2 == papers.list_papers(venues="Nature").total == papers.list_papers(venues=["Nature"]).total
    assert 0 == papers.list_papers(venues="Science").total


def test_dots_are_ids(client: akin.Client) -> None:
    """Papers with the ids "." and ".." can be fetched and deleted."""
    assert list(DOTS) == [client.paper(name).id for name in DOTS]
    assert list(DOTS) == [client.vectors(name).paper.id for name in DOTS]
    client.delete("..")
    assert "." == client.paper(".").id
    with pytest.raises(ServiceError, match="No paper of this collection"):
        client.paper("..")
    client.add({"id": "..", "title": "Title 1", "abstract": "We show 1.", "venue": "Nature"}, wait=True)


@pytest.mark.parametrize("url", ["http://[::1", "https://example.com:abc"])
def test_an_address_that_is_none(url: str) -> None:
    """An invalid address is refused at construction."""
    with pytest.raises(InputError, match="address of the service"):
        akin.Client(url)


def test_a_name_that_no_address_holds(client: akin.Client) -> None:
    """A name too long for a URL is refused before the request is sent."""
    with pytest.raises(InputError, match="too long"):
        client.paper("x" * 70_000)

    async def ask() -> None:
        async with akin.AsyncClient() as other:
            await other.list_papers(venues=["x" * 70_000])

    with pytest.raises(InputError, match="too long"):
        anyio.run(ask)


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"url": None}, "full address"),
        ({"key": 5}, "key must be the text"),
        ({"retries": 1}, r"akin.Retries\(attempts=1\), not 1"),
        *(
            ({"timeout_s": each}, "timeout_s must be a number of seconds above 0")
            for each in (0, -1, "5", True)
        ),
    ],
)
def test_arguments_of_a_client(keywords: dict[str, Any], said: str) -> None:
    """Arguments of a wrong type or out of range are refused at construction."""
    for kind in (akin.Client, akin.AsyncClient):
        with pytest.raises(InputError, match=said):
            kind(**keywords)


def test_what_open_takes() -> None:
    """Only the path of a folder can be opened; for an address, the error names akin.Client."""
    with pytest.raises(InputError, match="path of a data folder, not NoneType"):
        akin.open(None)
    with pytest.raises(InputError, match=r"use akin\.Client"):
        akin.open("http://127.0.0.1:8000")


def test_arguments_of_retries() -> None:
    """Retries are at least one attempt, and waits are not negative."""
    wrong: list[dict[str, Any]] = [
        {"attempts": 0},
        {"attempts": "3"},
        {"backoff_s": -1},
        {"max_wait_s": None},
    ]
    for keywords in wrong:
        with pytest.raises(InputError, match=next(iter(keywords))):
            Retries(**keywords)


@pytest.mark.parametrize("key", ["ключ", "a\nb", "abc ", "a b", ""])
def test_a_key_that_cannot_be_sent(key: str) -> None:
    """A key that no header can hold is refused at construction, and not shown."""
    for kind in (akin.Client, akin.AsyncClient):
        with pytest.raises(InputError, match="API key") as refused:
            kind("http://127.0.0.1:9", key=key)
        assert not key or key not in str(refused.value)


def test_an_answer_that_cannot_be_read() -> None:
    """A body that is not compressed as its header says raises ``ServiceError`` without a retry."""
    paths: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"not gzip"))

    with akin.Client(transport=httpx.MockTransport(answer), retries=Retries(attempts=3)) as client:
        for ask in (lambda: client.paper("x"), lambda: list(client.batch_results("x"))):
            with pytest.raises(ServiceError, match="cannot be read"):
                ask()

    async def ask_without_waiting() -> None:
        async with akin.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            with pytest.raises(ServiceError, match="cannot be read"):
                await client.paper("x")
            with pytest.raises(ServiceError, match="cannot be read"):
                async for _ in client.batch_results("x"):
                    pass

    anyio.run(ask_without_waiting)
    assert 4 == len(paths)


def test_pages_end() -> None:
    """Reading stops after an empty page, even if it has a cursor."""
    pages = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal pages
        pages += 1
        assert 9 > pages
        page = {"papers": [], "total": 7, "next_cursor": "more", "generation": "000001"}
        profiles = {"profiles": [], "next_after": "more"}
        return httpx.Response(200, json=profiles if "profiles" in request.url.path else page)

    with akin.Client(transport=httpx.MockTransport(answer)) as client:
        assert [] == list(client.list_papers(limit=300))
        assert [] == list(client.profiles())
    assert 2 == pages


def test_mistakes_with_batches(client: akin.Client) -> None:
    """Queries that are not a list, and an id too long for a URL, raise ``InputError``."""
    with pytest.raises(InputError, match="queries must be a list"):
        client.batch(queries=5)  # type: ignore[arg-type]  # which is the mistake
    with pytest.raises(InputError, match="too long"):
        list(client.batch_results("x" * 70_000))


@pytest.mark.parametrize("fixture", ["client", "collection"])
def test_papers_and_results_are_queries(fixture: str, request: pytest.FixtureRequest) -> None:
    """A paper or a result of an answer is accepted instead of its id."""
    papers = request.getfixturevalue(fixture)
    found = papers.search(".")
    paper = papers.paper(".")
    assert found.results == papers.search(paper).results == papers.search(paper_id=paper).results
    liked = papers.recommend(["."])
    assert liked.results == papers.recommend(paper).results == papers.recommend([paper]).results
    liked = papers.recommend([".."], facet="other")
    assert liked.results == papers.recommend([found[0]], facet="other").results
    assert papers.compare(".", "..").a == papers.compare(paper, found[0]).a
    other = papers.paper(found[0])
    assert (".", "..", found[0].paper) == (paper.id, other.id, other)
    assert (other, None, paper) == papers.papers(each for each in (found[0], "nobody", paper))
    assert paper == papers.paper(papers.find_papers(paper.title)[0])
    assert papers.vectors(".").paper == papers.vectors(paper).paper
    matched = papers.match([paper], {"p": found}).submissions[0]
    assert [("p", 1)] == [(each.profile, each.papers) for each in matched.profiles]
    papers.add({"id": "gone", "title": "Gone", "abstract": "We leave."}, wait=True)
    papers.delete(papers.paper("gone"))
    assert (None,) == papers.papers("gone")
    saved = papers.save_query("floods", search={"paper_id": "."})
    with pytest.raises(InputError, match="not News"):
        papers.compare(papers.new_papers(saved.id), ".")
    with pytest.raises(InputError, match="not generator; give a list"):
        papers.search(".", filters={"ids": (each for each in [".."])})


@pytest.mark.parametrize("fixture", ["client", "collection"])
def test_papers_may_be_rows_of_a_table(fixture: str, request: pytest.FixtureRequest) -> None:
    """Added papers may have the types of a table and other columns; a misspelt field is named."""
    papers = request.getfixturevalue(fixture)
    given: Any = {"id": 5, "title": "Five", "abstract": "We count.", "authors": "A; B", "year": "2020"}
    papers.add([{**given, "fields": None, "venue": float("nan")}], wait=True)
    found = papers.paper("5")
    assert (("A", "B"), 2020, None) == (found.authors, found.year, found.venue)
    rows = papers.list_papers(limit=3).to_pandas().to_dict("records")
    assert len(rows) == papers.add(rows, wait=True).accepted
    assert 1 == papers.add([{**given, "license": "CC0", "abstracts": 1}], wait=True).accepted
    papers.delete("5")
    with pytest.raises(
        InputError, match=r"papers\[1\] .* 'abstrct'; did you mean 'abstract'\? The fields are"
    ):
        papers.add([given, {"id": "x", "title": "X", "abstrct": "We."}])
