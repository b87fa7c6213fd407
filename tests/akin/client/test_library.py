"""Tests of `akin.Collection`, a collection in this process with the methods and answers of the client."""

import inspect
import json
import shutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pandas as pd
import pytest
from markupsafe import escape

import akin
from akin.client.client import Client
from akin.client.responses.matches import Profile
from akin.client.responses.saved import SavedQuery
from akin.client.uploads import NewPaper
from akin.local.collection import Collection
from models.errors import InputError, PaperNotFoundError, ServiceError, SnapshotMissingError
from service.app import create_app
from service.settings import Settings
from tests.support.builds import DEMO_CORPUS, many_papers, write_corpus
from tests.support.servers.loopback import served

# More papers than one page of a list holds.
MORE = many_papers(130)[100:]
DEMO = [json.loads(line) for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]
N_PAPERS = len(DEMO) + len(MORE)
IDS = {paper["id"] for paper in (*DEMO, *MORE)}
START = "demo:p03-m07"
DRAFT = "Rivers flood towns. We fit a graph network. It forecasts floods."
WHALES: NewPaper = {
    "id": "whales",
    "title": "Whales",
    "abstract": "Whales sing. We count <b>songs</b> & calls.",
}
# Methods that need a service: background work, and records that it stores per key.
OF_SERVICES = {
    "batch",
    "batch_results",
    "batches",
    "cancel_batch",
    "get_batch",
    "open_feed",
    "close_feed",
    "profiles",
    "put_profile",
    "delete_profile",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a collection that was indexed with ``akin.index``."""
    folder = tmp_path_factory.mktemp("library")
    files = [DEMO_CORPUS, str(write_corpus(folder / "more.jsonl", MORE))]
    with akin.index(files, folder / "data", encoder="hashing", device="cpu") as collection:
        assert N_PAPERS == len(collection)
    return folder / "data"


@pytest.fixture(scope="module")
def collection(data: Path) -> Iterator[Collection]:
    """Yield that collection, opened."""
    with akin.open(data, device="cpu") as collection:
        yield collection


@pytest.fixture(scope="module")
def address(data: Path) -> Iterator[str]:
    """Yield the address of a service over the same folder."""
    with served(create_app(Settings(data=data, device="cpu"))) as address:
        yield address


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[akin.Client]:
    """Yield a client of that service."""
    with akin.Client(address) as client:
        yield client


def methods_of(kind: type) -> dict[str, Any]:
    """Return the public methods of a class by name."""
    return {
        name: each for name, each in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")
    }


def keywords_of(method: Any) -> list[tuple[str, Any]]:
    """Return the names and defaults of a method's parameters."""
    return [(each.name, each.default) for each in inspect.signature(method).parameters.values()]


def test_a_collection_and_both_clients_have_the_same_methods() -> None:
    """Collection and both clients have the same methods, with named keywords and the same documentation."""
    ours, of_client, of_async = (methods_of(each) for each in (Collection, Client, akin.AsyncClient))
    assert set(of_client) - OF_SERVICES == set(ours)
    assert {"aclose" if name == "close" else name for name in of_client} == set(of_async)
    for name in ("search", "recommend", "search_sentences", "list_papers", "analyze", "compare", "papers"):
        assert keywords_of(of_client[name]) == keywords_of(ours[name]) == keywords_of(of_async[name])
        assert not any(
            kind.kind is kind.VAR_KEYWORD for kind in inspect.signature(ours[name]).parameters.values()
        )
        assert of_client[name].__doc__ == ours[name].__doc__


def types_of(answer: Any) -> dict[str, str]:
    """Return the types of the columns of an answer's table that are not text, by their names."""
    columns = answer.to_pandas().dtypes.items()
    return {name: str(kind) for name, kind in columns if not pd.api.types.is_string_dtype(kind)}


def timeless(answer: Any) -> Any:
    """Return the fields of an answer without its time and its cursor, which differ between processes."""
    given = {name: getattr(answer, name) for name in answer.__slots__}
    return {name: each for name, each in given.items() if name not in {"took_ms", "next_cursor"}}


def test_a_collection_answers_as_its_service_does(
    collection: Collection, client: akin.Client, address: str
) -> None:
    """Collection and client give the same answer to every request that both support."""
    seeds: list[Any] = [{"paper_id": START, "facet": "method"}, "demo:p99", {"abstract": DRAFT}]
    for source in (collection, client):
        assert len(source.search(START, facet="method", limit=3)) == 3
    pairs = [
        [
            each.search(START, facet="method", unlike={"facet": "background"}, limit=4),
            each.search(title="A draft", abstract=DRAFT, sentences=[1], filters={"year_from": 2020}),
            each.search(text="graph networks", words=0.0),
            each.recommend(seeds, negatives=["demo:p01-m07"], strategy="all", limit=3),
            each.search_sentences("We release our code.", facet="method", limit=3),
            each.analyze(DRAFT, title="A draft"),
            each.compare(START, {"title": "A draft", "abstract": DRAFT}),
            each.match([START], {"ada": ["demo:p03-m02", "demo:p03-m05"]}, limit=1),
            each.embed([{"abstract": DRAFT}]),
            each.vectors(START),
            each.list_papers(year_from=2020, limit=5),
            each.find_papers(DEMO[3]["title"].lower()),
        ]
        for each in (collection, client)
    ]
    for ours, theirs in zip(*pairs, strict=True):
        assert timeless(theirs) == timeless(ours)
    assert client.papers([START, "nobody"]) == collection.papers([START, "nobody"])
    assert client.paper(START) == collection.paper(START)
    assert () == collection.papers([]) == client.papers([]) == anyio.run(no_papers, address)
    assert client.count_papers(has_facets=["method"]) == collection.count_papers(has_facets=["method"])


async def no_papers(address: str) -> object:
    """Return what an asynchronous client answers for no names."""
    async with akin.AsyncClient(address) as client:
        return await client.papers(name for name in ())


def test_lists_go_on_behind_a_page(collection: Collection, client: akin.Client) -> None:
    """Lists longer than a page come in one answer with a cursor, and no paper comes twice."""
    for each in (collection, client):
        answer = each.search(START, limit=105, include=[])
        rest = each.search(START, limit=105, include=[], cursor=answer.next_cursor)
        assert (105, None) == (len(answer), rest.next_cursor)
        assert sorted(IDS - {START}) == sorted(result.paper.id for result in (*answer, *rest))
        assert N_PAPERS - 1 == answer.total
        assert [N_PAPERS, N_PAPERS] == [len(each.list_papers(limit=1_000)), each.list_papers().total]
        assert N_PAPERS - 1 == len(each.recommend([START], limit=500, include=[]))


def test_a_cursor_stays_in_its_generation(data: Path, tmp_path: Path) -> None:
    """Changes between two pages show on neither; a cursor of another search or list is refused."""
    with akin.open(shutil.copytree(data, tmp_path / "data")) as collection:
        head = collection.list_papers(limit=10)
        collection.delete([paper.id for paper in head])
        tail = collection.list_papers(limit=1_000, cursor=head.next_cursor)
        assert sorted(IDS) == sorted(each.id for each in (*head, *tail))
        with pytest.raises(InputError, match="another search"):
            collection.list_papers(year_from=2000, cursor=head.next_cursor)
        with pytest.raises(InputError, match="cursor was altered"):
            collection.list_papers(cursor="99999")
        collection.add(DEMO[:10])
        first = collection.search(START, limit=100)
        collection.add([{**WHALES, "abstract": DEMO[0]["abstract"]}])
        rest = collection.search(START, limit=100, cursor=first.next_cursor)
        assert sorted(IDS - {START}) == sorted(each.paper.id for each in (*first, *rest))
        with pytest.raises(InputError, match="another search"):
            collection.search(START, facet="method", cursor=first.next_cursor)


def test_papers_of_a_program_are_indexed_added_and_deleted(tmp_path: Path) -> None:
    """Dictionaries can be indexed, added and deleted; unusable papers are named; deleting is idempotent."""
    papers = [{name: paper[name] for name in ("id", "title", "abstract", "year")} for paper in DEMO[:20]]
    with pytest.warns(UserWarning, match=r"1 paper was not indexed: papers\[20\]: .*abstract"):
        collection = akin.index(
            [*papers, {"id": "empty", "title": "No abstract"}], tmp_path / "data", encoder="hashing"
        )
    with collection:
        assert (20, f"<Collection '{tmp_path / 'data'}': 20 papers>") == (len(collection), repr(collection))
        accepted = collection.add([WHALES])
        assert (1, 0, accepted.generation) == (
            accepted.accepted,
            accepted.unchanged,
            collection.search("whales").generation,
        )
        assert 1 == collection.add([WHALES]).unchanged
        assert ("whales", 21) == (collection.search(text="whales sing")[0].paper.id, len(collection))
        with pytest.raises(InputError, match=r"papers.0.abstract"):
            collection.add([{"id": "x", "title": "X", "abstract": " "}])
        with pytest.raises(InputError, match="the field 'year' is object"):
            akin.index([{**WHALES, "year": object()}], tmp_path / "data")
        collection.delete("whales")
        collection.delete("whales")
        with pytest.raises(PaperNotFoundError):
            collection.paper("whales")
    with akin.index([WHALES], tmp_path / "data") as again:
        assert 21 == len(again)


@pytest.fixture(scope="module")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder for a collection of one paper."""
    return tmp_path_factory.mktemp("small") / "data"


@pytest.fixture(scope="module")
def small(small_data: Path) -> Iterator[Collection]:
    """Yield that collection, to be changed."""
    with akin.index(WHALES, small_data, encoder="hashing", device="cpu") as collection:
        yield collection


def test_one_paper_or_a_file_is_added_and_several_are_deleted(
    small: Collection, small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both accept one paper or files to add, warn about skipped entries, and delete several papers."""
    bib, monkeys = tmp_path / "my.bib", {**WHALES, "id": "monkeys", "title": "Monkeys"}
    bib.write_text(
        f"@article{{a, title = {{A draft}}, abstract = {{{DRAFT}}}, year = 2020}}\n"
        "@article{b, title = {No}}",
        encoding="utf-8",
    )
    labelled = {**WHALES, "id": "l", "abstract": ["Whales sing.", "We count."], "facets": ["result", None]}
    lines = tmp_path / "some.jsonl"
    listed = {**WHALES, "id": "n", "abstract": ["Whales sing", "We count"]}
    lines.write_text("\n".join(map(json.dumps, (labelled, listed))), encoding="utf-8")
    monkeypatch.setenv("AKIN_KEYLESS", "write")
    service = create_app(Settings(data=small_data, device="cpu"))
    with served(service) as address, akin.Client(address) as client:
        for source in (small, client):
            assert 1 == source.add(monkeys, wait=True).accepted
            with pytest.warns(UserWarning, match=r"my.bib: 1 paper was not added: 1 without an") as warned:
                assert 3 == source.add([bib, str(lines)], wait=True).accepted
            assert [__file__] == [each.filename for each in warned]
            assert (2020, DRAFT) == (source.paper("a").year, source.paper("a").abstract)
            assert "Whales sing. We count." == source.paper("l").abstract
            assert "result" == (source.paper("l").sentences or ())[0].facet
            assert 2 == len(source.paper("n").sentences or ())
            source.delete(["a", "l", "n", "monkeys", "nobody"])
            source.delete([])
            assert (None,) * 3 == source.papers(["a", "l", "monkeys"])

        async def add() -> None:
            async with akin.AsyncClient(address) as waiting:
                await waiting.add(bib, wait=True)
                await waiting.delete("a")

        with pytest.warns(UserWarning, match=r"my.bib: 1 paper was not added") as warned:
            anyio.run(add)
        assert [__file__] == [each.filename for each in warned]


NOTHING_TO_START_FROM = "Nothing to start from: give papers as seeds"
REFUSED = [
    ("add", ([],), "There is no paper to add"),
    ("add", (5,), "dictionaries or files, not int"),
    ("add", ([WHALES, 5],), r"papers\[1\] is neither a dictionary"),
    ("add", ([WHALES] * 1_001,), "more papers than the 1,000"),
    ("add", (pd.DataFrame([WHALES]),), "not DataFrame; for a pandas table, give table.to_dict"),
    ("delete", ([3],), "an id is a string"),
    ("delete", (3,), "an id is a string"),
    ("recommend", (), NOTHING_TO_START_FROM),
]


@pytest.mark.parametrize(("method", "given", "said"), REFUSED)
def test_what_cannot_be_meant_is_said_in_words(
    collection: Collection, client: akin.Client, method: str, given: tuple[Any, ...], said: str
) -> None:
    """Invalid arguments raise ``InputError`` with the same message in both."""
    for each in (collection, client):
        with pytest.raises(InputError, match=said):
            getattr(each, method)(*given)


# Values that no client can send.
NOT_JSON: list[dict[str, Any]] = [
    {"words": float("nan")},
    {"filters": {"ids": [object()]}},
    {"facet": "\ud800"},
]
UNFIT = [
    ({"limit": 0}, "The query cannot be used: limit must be at least 1."),
    ({"limit": "3"}, "limit must be a whole number, not a string."),
    ({"facet": "methods"}, "facet must be one of 'background', "),
    ({"sentences": []}, "sentences must not be empty."),
    (
        {"filters": {"yearfrom": 3}},
        "filters has an unknown field; did you mean year_from? The fields are ",
    ),
    ({"filters": 3}, "filters must be an object with named fields, not a number."),
    ({"words": "many"}, "words must be a number, not a string."),
    (NOT_JSON[0], "words must be a finite number."),
    (NOT_JSON[1], "filters.ids.0 must be a text, a number, a list or a dictionary, not object."),
    (NOT_JSON[2], "facet must be text in Unicode; half of a character is in it (a surrogate)."),
]


@pytest.mark.parametrize(("options", "said"), UNFIT)
def test_what_does_not_fit_is_named_in_the_same_words_by_the_service(
    collection: Collection, client: akin.Client, options: Any, said: str
) -> None:
    """Invalid options are named, with the expected and given type, in the same words in both."""
    with pytest.raises(InputError) as caught:
        collection.search(START, **options)
    assert said in str(caught.value)
    with pytest.raises(InputError if options in NOT_JSON else ServiceError) as answered:
        client.search(START, **options)
    assert said.removeprefix("The query ").rstrip(".") in str(answered.value)


def test_a_search_from_nothing_is_refused_without_repeating_the_query(collection: Collection) -> None:
    """The message about the query as a whole names it once."""
    with pytest.raises(InputError, match=r"^The query cannot be used: give either paper_id, or title"):
        collection.search()


def test_tuples_ranges_and_arrays_are_lists(collection: Collection, client: akin.Client) -> None:
    """Tuples, ranges, arrays and numpy numbers are accepted in both, wherever lists and numbers are."""
    numbers: Any = np.arange(2)
    three: Any = np.int64(3)
    nothing: Any = None
    seed: Any = {"paper_id": START, "facet": ("method",)}
    draft: Any = {"title": "A draft", "abstract": ("We fit a graph.", "It forecasts.")}
    pairs = [
        [
            each.search(START, sentences=(0, 1), filters={"exclude_ids": ("demo:p01-m01",)}, limit=three),
            each.search(START, sentences=range(2), include=("alignments",), words=np.float32(0.5)),
            each.search(START, sentences=numbers, facet=nothing),
            each.search(title="A draft", abstract=("We fit a graph.", "It forecasts."), facet=("method",)),
            each.recommend([seed], filters=nothing, cursor=nothing, limit=2),
            each.search_sentences("We release our code.", facet=("method",), limit=3),
            each.embed([draft]),
            each.list_papers(authors=tuple(DEMO[0]["authors"]), limit=three),
            each.papers(START),
            each.embed({"abstract": DRAFT}),
            each.match(START, {"ada": "demo:p03-m02"}, limit=1),
        ]
        for each in (collection, client)
    ]
    for ours, theirs in zip(*pairs, strict=True):
        assert (theirs == ours) if isinstance(ours, tuple) else (timeless(theirs) == timeless(ours))
    assert START == pairs[0][-3][0].id


def test_lists_refuse_what_a_service_refuses(collection: Collection, client: akin.Client) -> None:
    """Invalid limits and cursors of lists of papers are refused with a message in both."""
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("list_papers", {"limit": 0}, "limit must be at least 1"),
        ("list_papers", {"limit": -3}, "limit must be"),
        ("list_papers", {"limit": "many"}, "limit must be a whole number"),
        ("list_papers", {"cursor": "abc"}, "cursor"),
        ("find_papers", {"title": "graph", "limit": 0}, "limit must be at least 1"),
        ("find_papers", {"title": "graph", "limit": "x"}, "limit must be a whole number"),
    ]
    for method, options, said in wrong:
        for each in (collection, client):
            with pytest.raises((InputError, ServiceError), match=said):
                getattr(each, method)(**options)
    nothing: Any = None
    for each in (collection, client):
        assert [N_PAPERS, 100] == [len(each.list_papers(limit=500)), len(each.list_papers(limit=nothing))]


def test_news_refuse_what_a_service_refuses(small: Collection) -> None:
    """A saved query accepts tuples; an invalid limit or change number of its news is refused."""
    saved = small.save_query("whales", search={"paper_id": "whales", "sentences": (0, 1)})
    with pytest.raises(InputError, match="limit must be at least 1"):
        small.new_papers(saved.id, limit=-1)
    wrong: Any = "x"
    with pytest.raises(InputError, match="up_to must be a whole number"):
        small.mark_seen(saved.id, wrong)
    news = small.new_papers(saved.id, limit=2)
    assert 0 == len(news)
    small.add({**WHALES, "id": "more", "title": "More whales"})
    more = small.new_papers(saved.id, weak=True)
    small.delete("more")
    assert [each.added_at for each in more] == list(more.to_pandas()["added_at"])
    assert 1 == len(more)
    assert types_of(more) == types_of(news)


def test_rows_of_a_table_are_added_without_its_gaps(small: Collection, tmp_path: Path) -> None:
    """Missing values of pandas (nan) become missing fields, and numpy numbers are accepted."""
    table = pd.DataFrame([{**WHALES, "year": 2020, "venue": "Sea"}, {**WHALES, "id": "b", "title": "B"}])
    rows: Any = table.to_dict("records")
    rows[0] |= {"year": np.int64(2020), "authors": ("Ada",), "added": pd.Timestamp("2020-01-01")}
    assert 2 == small.add(rows).accepted
    with akin.index(rows, tmp_path / "data", encoder="hashing", device="cpu") as indexed:
        for each in (small, indexed):
            assert (2020, "Sea", ("Ada",)) == (
                each.paper("whales").year,
                each.paper("whales").venue,
                each.paper("whales").authors,
            )
            assert (None, None) == (each.paper("b").year, each.paper("b").venue)


def test_a_misspelt_keyword_is_named_with_the_one_meant(
    collection: Collection, client: akin.Client, tmp_path: Path
) -> None:
    """A misspelt keyword raises ``TypeError``, like Python's, with the keyword that was meant."""
    wrong = r"search\(\) got an unexpected keyword argument 'fasset'; did you mean 'facet'\?"
    other: Any = {"fasset": "method"}
    for each in (collection, client):
        with pytest.raises(TypeError, match=wrong):
            each.search(START, **other)
        with pytest.raises(TypeError, match=r"match\(\) .*'quotes'; did you mean 'quotas'"):
            each.match([START], {}, quotes={})  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=wrong):
        anyio.run(lambda: akin.AsyncClient().search(START, **other))
    with pytest.raises(TypeError, match=r"batch\(\) .*'querys'; did you mean 'queries'"):
        client.batch(querys=[])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"index\(\) .*'encodr'; did you mean 'encoder'"):
        akin.index([WHALES], tmp_path, encodr="hashing")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'zzz'; it takes abstract, title"):
        collection.analyze(DRAFT, zzz=1)  # type: ignore[call-arg]


def test_nothing_to_index_names_the_papers_given(tmp_path: Path) -> None:
    """If nothing can be indexed, the error names the papers given, not a temporary file."""
    with pytest.raises(InputError, match="There is no paper to index"):
        akin.index([], tmp_path / "data", encoder="hashing")
    with pytest.raises(InputError, match="not DataFrame"):
        akin.index(pd.DataFrame([WHALES]), tmp_path / "data", encoder="hashing")
    unusable: Any = {"id": "x", "title": "X"}
    with pytest.raises(InputError, match=r"^the papers given: no usable paper \(papers\[0\]: no abstract"):
        akin.index([unusable], tmp_path / "data", encoder="hashing")


def test_papers_that_replace_another_are_reported(tmp_path: Path) -> None:
    """A warning names both titles if a key of two libraries names two papers."""
    akin.index([WHALES], tmp_path / "data", encoder="hashing", device="cpu").close()
    other: Any = {**WHALES, "title": "Entirely different words here", "abstract": DRAFT}
    with pytest.warns(UserWarning, match="whales: .* became 'Entirely different .*; if it is another paper"):
        akin.index([other], tmp_path / "data", device="cpu").close()


def test_fields_of_a_program_are_checked_when_they_are_indexed(tmp_path: Path) -> None:
    """A misspelt field is named with the one meant, and text that is not Unicode as such."""
    wrong: Any = {**WHALES, "author": ["Ada"]}
    with pytest.raises(
        InputError, match=r"papers\[0\] has the unknown field 'author'; did you mean 'authors'"
    ):
        akin.index([wrong], tmp_path / "data", encoder="hashing")
    with pytest.raises(InputError, match=r"'title' is text with half of a character"):
        akin.index([{**WHALES, "title": "a\ud800"}], tmp_path / "data", encoder="hashing")


def test_entries_without_an_abstract_are_reported(tmp_path: Path) -> None:
    """A warning counts the entries without an abstract, and names the table of those to look up."""
    bib, data = tmp_path / "my.bib", tmp_path / "data"
    bib.write_text(
        f"@article{{a, title = {{A draft}}, abstract = {{{DRAFT}}}}}\n"
        "@article{b, title = {No}, doi = {10.1000/b}}\n@article{c, title = {Nor this}}",
        encoding="utf-8",
    )
    said = f"2 papers were not indexed: 2 without an abstract .{data / 'lookups' / 'unresolved.csv'} lists"
    with pytest.warns(UserWarning, match=said) as warned:
        akin.index(bib, data, encoder="hashing", device="cpu").close()
    assert [__file__] == [each.filename for each in warned]


def test_what_another_process_adds_shows(data: Path, tmp_path: Path) -> None:
    """An open collection sees papers published by another process without being opened again."""
    with akin.open(shutil.copytree(data, tmp_path / "data")) as collection:
        assert N_PAPERS == len(collection)
        akin.index([WHALES], tmp_path / "data").close()
        assert (N_PAPERS + 1, "Whales") == (len(collection), collection.paper("whales").title)


def test_an_answer_is_of_one_generation_while_a_paper_is_replaced(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer comes from one generation, even if another is published while it is made."""
    folder = shutil.copytree(data, tmp_path / "data")
    names = (f"whales-{number}" for number in range(9))
    with akin.open(folder) as collection, akin.open(folder) as other:
        follow = collection._engines.follow

        def follow_a_change() -> bool:
            name = next(names)
            other.add([{**WHALES, "id": name}, {**WHALES, "id": START, "title": name}])
            return follow()

        monkeypatch.setattr(collection._engines, "follow", follow_a_change)
        assert START == collection.paper(START).id
        assert [START] == [paper and paper.id for paper in collection.papers([START])]
        assert START == collection.vectors(START).paper.id


def test_a_closed_collection_has_no_file_open(data: Path, tmp_path: Path) -> None:
    """Closing releases all files, though the object is still there; using it opens them again."""
    folder = Path(shutil.copytree(data, tmp_path / "data"))

    def are_open() -> bool:
        links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return any(folder in link.readlink().parents for link in links)

    with akin.open(folder) as collection:
        collection.add(WHALES)
        collection.search(text="whales sing")
        collection.save_query("whales", search={"text": "whales sing"})
        assert are_open()
    assert not are_open()
    assert "whales" == collection.search(text="whales sing")[0].paper.id
    collection.close()
    assert not are_open()


def test_a_folder_without_a_collection(tmp_path: Path) -> None:
    """Opening a folder without a collection raises an error at once."""
    with pytest.raises(SnapshotMissingError):
        akin.open(tmp_path)


def test_a_library_is_a_list_to_start_from(
    collection: Collection, client: akin.Client, tmp_path: Path
) -> None:
    """Entries of BibTeX and RIS files become seeds by id, title or abstract; unusable ones are named."""
    bib, ris = tmp_path / "my.bib", tmp_path / "not.ris"
    bib.write_text(
        f"@article{{a, title = {{{DEMO[7]['title'].upper()}}}}}\n"
        f"@article{{b, title = {{A draft}}, abstract = {{{DRAFT}}}}}\n@article{{c, title = {{Lost}}}}\n",
        encoding="utf-8",
    )
    ris.write_text(f"TY  - JOUR\nTI  - {DEMO[50]['title']}\nER  - \n", encoding="utf-8")
    for papers in (collection, client):
        with pytest.warns(
            UserWarning, match="left out 1 entry that the collection does not have.*: Lost"
        ) as warned:
            answer = papers.recommend([START], like=bib, unlike=[str(ris)], facet="method", limit=3)
        assert [__file__] == [each.filename for each in warned]
        same = papers.recommend(
            [
                {"paper_id": START, "facet": "method"},
                {"paper_id": DEMO[7]["id"], "facet": "method"},
                {"title": "A draft", "abstract": DRAFT, "facet": "method"},
            ],
            negatives=[DEMO[50]["id"]],
            limit=3,
        )
        assert timeless(same) == timeless(answer)
        alone = papers.recommend({"paper_id": START}, negatives=DEMO[50]["id"], limit=3)
        assert timeless(alone) == timeless(papers.recommend([START], negatives=[DEMO[50]["id"]], limit=3))


def test_lists_and_libraries_without_waiting(collection: Collection, address: str, tmp_path: Path) -> None:
    """AsyncClient reads several pages and libraries, with the same answers as a collection."""
    bib = tmp_path / "my.bib"
    bib.write_text(f"@article{{a, title = {{{DEMO[7]['title']}}}}}", encoding="utf-8")

    async def ask() -> tuple[Any, ...]:
        async with akin.AsyncClient(address) as asking:
            return (
                await asking.search(START, limit=105, include=[]),
                await asking.recommend(START, like=bib, limit=3, filters=None),
                await asking.search_sentences("We release our code.", limit=3),
                await asking.list_papers(limit=120),
            )

    expected = (
        collection.search(START, limit=105, include=[]),
        collection.recommend(START, like=bib, limit=3),
        collection.search_sentences("We release our code.", limit=3),
        collection.list_papers(limit=120),
    )
    assert list(map(timeless, expected)) == list(map(timeless, anyio.run(ask)))


def test_answers_are_lists(collection: Collection) -> None:
    """Answers behave like lists, and their repr shows one result per line."""
    answer = collection.search(START, facet="method", limit=3)
    first, *_ = answer
    assert ([*answer.results], answer.results[1:], first) == ([*answer], answer[1:], answer[0])
    lines = repr(answer).splitlines()
    assert [
        f"<SearchAnswer: 3 of {N_PAPERS - 1}>",
        f"  1. {first.score:.3f}  {first.paper.line()}",
    ] == lines[:2]
    assert first.paper.title in lines[1]
    assert (4, True) == (len(lines), len(repr(first)) < 160)
    assert not collection.search(START, filters={"year_from": 2100})
    assert "     ... and 20 more" == repr(collection.search(START, limit=30)).splitlines()[-1]
    assert [each.text for each in collection.analyze(DRAFT)] == DRAFT.replace(". ", ".|").split("|")


def test_answers_are_taken_along(collection: Collection) -> None:
    """Answers convert to pandas with a row per result, and to BibTeX and RIS with an entry per paper."""
    answer = collection.search(START, facet="method", limit=3)
    table = answer.to_pandas()
    assert [result.paper.id for result in answer] == list(table["id"])
    assert [result.score for result in answer] == list(table["score"])
    assert [result.matching(1)[0][0] for result in answer] == list(table["match"])
    assert "Int64" == str(table["year"].dtype)
    assert 5 == len(collection.search_sentences("We release code.", limit=5).to_pandas())
    assert 2 == len(collection.list_papers(limit=2).to_pandas())
    late: Any = {"year_from": 2100}
    for some, none in (
        (answer, collection.search(START, filters=late)),
        (collection.list_papers(limit=1), collection.list_papers(**late)),
        (collection.search_sentences("We code."), collection.search_sentences("We code.", filters=late)),
        (collection.find_papers(DEMO[3]["title"]), collection.find_papers("qqqq xxxx")),
    ):
        assert (0, list(some.to_pandas())) == (len(none), list(none.to_pandas()))
        assert types_of(some) == types_of(none) != {}
    assert 3 == answer.to_bibtex().count("\n  title = ") == answer.to_ris().count("TY  - ")
    assert answer[0].paper.title in answer.to_bibtex()
    assert 5 == answer.to_table("markdown").count("\n")
    assert answer[2].paper.title in answer.to_table("tsv")
    with pytest.raises(InputError, match="A table comes as latex, markdown, tsv, not as 'html'"):
        answer.to_table("html")


def values_in(answer: object) -> Iterator[object]:
    """Yield an answer and all values in it that have fields."""
    if isinstance(answer, tuple):
        for each in answer:
            yield from values_in(each)
    elif is_dataclass(answer):
        yield answer
        for field in fields(answer):
            yield from values_in(getattr(answer, field.name))


def test_all_that_is_in_an_answer_is_short_in_an_interpreter(collection: Collection) -> None:
    """Each value in an answer is at most a dozen lines of at most 160 characters in an interpreter."""
    long = {"title": "Floods " * 40, "abstract": f"{'Rivers flood towns ' * 20}. {DRAFT}"}
    answers = [
        collection.search(**long, unlike={"facet": "result"}, limit=2),
        collection.recommend([START, long], negatives=[DEMO[1]["id"]], limit=2),
        collection.search_sentences("Rivers flood towns " * 20, limit=2),
        collection.analyze(long["abstract"]),
        collection.compare(START, long),
        collection.match([START, long], {"ada": ["demo:p03-m02", "lost"]}, limit=1),
        collection.embed([long]),
        collection.find_papers(DEMO[3]["title"]),
        SavedQuery(
            "q", "Floods", "search", datetime.now(UTC), None, 1, None, search=long, recommendations=None
        ),
        Profile("ada", (START,) * 200, (), None),
    ]
    shown = [repr(each) for answer in answers for each in values_in(answer)]
    lines = [line for each in shown for line in each.splitlines() if not line.startswith("Left out: ")]
    assert not [line for line in lines if len(line) > 160]
    assert not [each for each in shown if each.count("\n") > 11]
    query, *_ = values_in(answers[0].query)
    assert "<Query Floods Floods" in repr(query)
    assert "(3 of 4 sentences)>" in repr(query)
    assert "<Seed not " in repr(answers[1].seeds[-1])


def test_what_was_left_out_and_why_nothing_was_found_is_shown(collection: Collection) -> None:
    """Interpreters and notebooks show seeds that were left out, lost papers of profiles, and reasons."""
    near = DEMO[0]["title"][:-1]
    liked = collection.recommend([START, near, "nobody"], limit=2)
    left_out = [
        "Left out: seed 1: ",
        "Left out: seed 2: No paper of this collection has this title, DOI or id.",
    ]
    assert left_out[1] == repr(liked).splitlines()[-1]
    for shown in (repr(liked), unescape(liked._repr_html_() or "")):
        assert [] == [each for each in left_out if each not in shown]
        assert f"{DEMO[0]['id']!r} ({DEMO[0]['title']})" in shown
        assert "did_you_mean" not in shown
    lost = collection.recommend([f"nobody{number}" for number in range(30)])
    assert "Left out: 20 more" == repr(lost).splitlines()[-1]
    matched = collection.match([START], {"ada": [DEMO[2]["id"], "lost"]})
    assert "Left out: 1 paper of ada, not in the collection" == repr(matched).splitlines()[-1]
    for empty in (
        collection.list_papers(venues=["Natur"]),
        collection.search(START, filters={"year_from": 2100}),
    ):
        assert empty.detail
        assert [empty.detail] == repr(empty).splitlines()[1:]


def test_comparisons_and_matches_are_tables_of_sentences_and_profiles(collection: Collection) -> None:
    """A comparison has a row for each sentence of both papers, a match for each submission and profile."""
    compared = collection.compare(START, {"abstract": DRAFT})
    first, second = compared
    assert (compared.a, compared.b, 2) == (first, second, len(compared))
    table = compared.to_pandas()
    texts = [each.text for side in compared for each in side.sentences]
    assert (texts, list("a" * len(first.sentences) + "bbb")) == (list(table["text"]), list(table["side"]))
    assert (START, 3) == (table["id"].iloc[0], table["id"].isna().sum())
    assert {"sentence": "int64", "nearest": "Int64", "alone": "boolean"}.items() <= types_of(compared).items()
    matched = collection.match(
        [START, DEMO[5]["id"]], {"ada": [DEMO[2]["id"]], "ben": [DEMO[7]["id"]]}, limit=2
    )
    assert [*matched.submissions] == [*matched]
    rows = [(each.id, profile.profile, profile.affinity) for each in matched for profile in each.profiles]
    table = matched.to_pandas()
    assert (4, rows) == (len(rows), list(zip(table["id"], table["profile"], table["affinity"], strict=True)))
    assert types_of(replace(matched, submissions=())) == types_of(matched)


def test_found_sentences_are_cards_and_their_papers_entries(collection: Collection) -> None:
    """A notebook shows each found sentence with its facet and paper; BibTeX and RIS have each paper once."""
    answer = collection.search_sentences("We <b>release</b> our code.", limit=60)
    shown = answer._repr_html_() or ""
    first = answer[0]
    assert "60 sentences similar to “We &lt;b&gt;release&lt;/b&gt; our code.”, the first 25 shown" in shown
    assert 25 == shown.count('<article class="card"')
    card = shown.split('<article class="card"')[1]
    assert [] == [
        each
        for each in (
            first.text,
            first.paper.title,
            first.paper.authors[0],
            first.paper.id,
            f"{first.distance:.3f}",
        )
        if str(escape(each)) not in card
    ]
    assert f'<span class="facet {first.facet}"' in card
    assert not [each for each in ("<link", "<script", "<img", 'href="/', "url(", "<b>") if each in shown]
    papers = {each.paper.id for each in answer}
    assert len(papers) < 60
    assert len(papers) == answer.to_bibtex().count("\n  title = ") == answer.to_ris().count("TY  - ")
    assert first.paper.title in answer.to_bibtex()
    titles = collection.find_papers(DEMO[3]["title"])
    assert titles[0].paper.title in titles.to_bibtex()


def test_answers_without_a_list_are_short_in_an_interpreter(collection: Collection) -> None:
    """The repr of a match shows its nearest profiles, and that of vectors their number, not their text."""
    matched = collection.match([START] * 12, {"ada": ["demo:p03-m02"]}, limit=1)
    first = matched.submissions[0]
    lines = repr(matched).splitlines()
    assert ["<MatchAnswer: 12 submissions>", "     ... and 2 more"] == [lines[0], lines[-1]]
    assert f"  1. {DEMO[37]['title']}: ada {first.profiles[0].affinity:.3f}" == lines[1]
    embedded = collection.embed([{"abstract": DRAFT}] * 2)
    assert "<Embedding: 8 vectors of 2 papers, from hashing>" == repr(embedded)
    stored = collection.vectors(START)
    n_vectors = len(stored.paper.sentences) + 1
    assert f"<PaperVectorsAnswer: {n_vectors} vectors of {START}, from hashing>" == repr(stored)
    assert stored.paper.document not in repr(stored.paper)


def test_a_notebook_shows_the_cards_of_the_page(tmp_path: Path, client: akin.Client) -> None:
    """In a notebook, answers show escaped cards with marked sentences, without links or external files."""
    with akin.index([*DEMO[:9], WHALES], tmp_path / "data", encoder="hashing") as collection:
        shown = collection.search(text="whales sing songs", limit=2)._repr_html_() or ""
        liked = collection.recommend([DEMO[0]["id"], DEMO[1]["id"]], limit=1)._repr_html_() or ""
    assert "2 of 10 papers similar to “whales sing songs”" in shown
    assert "Whales" in shown.split('<h3 dir="auto">')[1]
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert 'class="sentence w' in shown
    assert 2 == shown.count('<article class="card"')
    assert not [each for each in ("<link", "<script", "<img", 'href="/', "url(") if each in shown + liked]
    assert 'content: " · "' in shown
    assert "Similar to <cite" in liked
    assert (client.search(START, limit=2)._repr_html_() or "").count("<article") == 2


def test_a_notebook_shows_results_without_sentences(client: akin.Client) -> None:
    """In a notebook, results that were requested without sentences are cards without marks."""
    shown = client.search(START, limit=2, include=["highlights"])._repr_html_() or ""
    assert 2 == shown.count("<article")
    assert 'class="sentence w' not in shown
