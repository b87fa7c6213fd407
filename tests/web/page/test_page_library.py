"""Tests of libraries sent to the page: the papers found, the reports on the others, and the limits."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from shutil import copytree
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient
from starlette.datastructures import QueryParams

from indexer.files.data_folder import CATALOG_FILE
from models.encoder import Encoder
from models.errors import DeadlineError
from models.types import Facet
from service.access.api_keys import Keys, Scope
from service.collection.generations import open_engine
from service.context import with_deadline
from service.settings import Settings
from service.web.address.further import Further
from service.web.address.page_query import PageQuery
from service.web.library import MAX_ENTRIES, MAX_LIBRARY_BYTES, MAX_LISTED, find_library
from tests.support.builds import build_quietly, write_corpus
from tests.support.clients import client_of
from tests.support.examples.pages import Page, query_of

PAPERS: list[dict[str, object]] = [
    {"id": "ropes", "title": "Ropes, Compared", "abstract": ["We compare ropes."], "doi": "10.5555/Rope.1"},
    {"id": "arxiv:2212.11867", "title": "Sails of Paper", "abstract": ["We fold sails.", "They tear."]},
    {"id": "pmid:31452104", "title": "Kites in Still Air", "abstract": ["We fly kites."]},
    {"id": "knots", "title": "Knots: A Survey", "abstract": ["We tie knots."]},
]
# Each names the first paper by DOI, the second and third in other ways if possible, and a missing paper.
FILES = {
    "my.bib": """@article{a, title={A rope}, doi={10.5555/rope.1}}
@misc{b, title={Other words}, eprint={2212.11867}, archiveprefix={arXiv}}
@book{c, title={{KITES} in {Still} {Air}.}}
@book{d, title={Nobody has {{\\'e}}t{\\'e}}, abstract={It is warm.}}
""",
    "my.ris": """TY  - JOUR
DO  - 10.5555/ROPE.1
ER  -
TY  - JOUR
UR  - https://arxiv.org/abs/2212.11867
ER  -
TY  - BOOK
TI  - Kites in still air
ER  -
TY  - BOOK
TI  - Nobody has été
AB  - It is warm.
ER  -
""",
    "zotero.csv": """"Key","Title","Abstract Note","DOI","Url"
"K1","A rope","","10.5555/rope.1",""
"K2","Other words","","","http://arxiv.org/abs/2212.11867"
"K3","Kites in Still Air","","",""
"K4","Nobody has été","It is warm.","",""
""",
    "my.json": """[{"id": "1", "type": "book", "title": "A rope", "DOI": "10.5555/rope.1", "issued": {}},
{"id": "2", "type": "book", "title": "Other words", "URL": "https://arxiv.org/abs/2212.11867", "issued": {}},
{"id": "3", "type": "book", "title": "Kites in Still Air", "issued": {}},
{"id": "4", "type": "book", "title": "Nobody has été", "abstract": "It is warm.", "issued": {}}]
""",
    "ids.txt": "10.5555/rope.1\narXiv:2212.11867v2\n31452104\nNobody has été\n",
    "my list": "'ropes',\nsails of paper\r\n\n\"PMID: 31452104\",\nNobody has été\n",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return the folder of a collection of four papers."""
    folder = tmp_path_factory.mktemp("library")
    build_quietly(write_corpus(folder / "papers.jsonl", PAPERS), folder / "data", hashing)
    return folder / "data"


@pytest.fixture(scope="module")
def client(data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over that collection."""
    with client_of(data) as client:
        yield client


def send(
    client: TestClient,
    content: str | bytes,
    name: str = "my.bib",
    *,
    status: int = 200,
    **fields: str | list[str],
) -> Page:
    """Return the page that answers a file sent with the fields of a query."""
    answer = client.post("/library", data=fields, files={"file": (name, content)})
    assert status == answer.status_code
    return Page(answer.text)


def found(page: Page) -> list[str]:
    """Return the ids of the papers that can be ticked."""
    return [each["value"] for each in page.all("input", name="add")]


@pytest.mark.parametrize("name", FILES)
def test_papers_are_found_by_names_and_titles(client: TestClient, name: str) -> None:
    """In every format, papers are found by DOI, arXiv or PubMed number, or title; a missing one is listed."""
    page = send(client, FILES[name], name)
    assert ["ropes", "arxiv:2212.11867", "pmid:31452104"] == found(page)
    assert "3 of 4 papers are in this collection" in page.text
    assert f"From {name}" in page.text
    (missing,) = page.all("a", title="Similar")
    page_query = query_of(missing["href"])
    if name in {"ids.txt", "my list"}:
        assert PageQuery(text="Nobody has été") == page_query
    else:
        assert PageQuery(title="Nobody has été", abstract="It is warm.") == page_query
    assert 3 == len([each for each in page.all("input") if "checked" in each])


def test_a_title_that_mentions_a_paper_is_its_own(tmp_path: Path, hashing: Encoder) -> None:
    """A line with an id among other words is the paper with that title, or else a citation of that id."""
    papers: list[dict[str, object]] = [
        {"id": "arxiv:1706.03762", "title": "Ropes", "abstract": ["We sort ropes."]},
        {"id": "comment", "title": "Comment on arXiv:1706.03762", "abstract": ["We disagree."]},
    ]
    build_quietly(write_corpus(tmp_path / "c.jsonl", papers), tmp_path / "data", hashing)
    engine = open_engine(Settings(data=tmp_path / "data", device="cpu"))
    for line, paper_id in (
        ("Comment on arXiv:1706.03762", "comment"),
        ("Quill, A. Ropes. arXiv:1706.03762", "arxiv:1706.03762"),
        ("Preprint at https://arxiv.org/abs/1706.03762", "arxiv:1706.03762"),
    ):
        library = find_library(engine, line.encode(), "list.txt")
        assert [paper_id] == [paper.id for paper in library.papers], line


def test_filters_go_with_every_search_from_a_library(client: TestClient) -> None:
    """Searches for missing papers, and by the box at the top, keep the filters of the search."""
    page = send(client, FILES["my.bib"], **{"from": "2015", "paper": "ropes"})
    (missing,) = page.all("a", title="Similar")
    page_query = query_of(missing["href"])
    assert PageQuery(title="Nobody has été", abstract="It is warm.", year_from=2015) == page_query
    kept = page.all("input", type="hidden", name="from")
    assert ["2015"] * 3 == [each["value"] for each in kept]  # the box, the ticked ones, another file


def test_every_format_can_be_chosen(client: TestClient) -> None:
    """The file chooser offers the files of every reference manager that is read."""
    (chooser,) = Page(client.get("/library").text).all("input", type="file")
    assert {".bib", ".ris", ".nbib", ".csv", ".json", ".txt"} <= set(chooser["accept"].split(","))


def test_a_list_is_pasted(client: TestClient) -> None:
    """If no file is chosen, the text in the box is read."""
    answer = client.post("/library", data={"list": FILES["my list"]}, files={"file": ("", b"")})
    page = Page(answer.text)
    assert ["ropes", "arxiv:2212.11867", "pmid:31452104"] == found(page)
    assert "From your list" in page.text


def test_keys_name_papers_only_where_there_is_no_title(client: TestClient) -> None:
    """A citation key finds a paper only if the entry has no title, as keys are made up."""
    page = send(client, "@book{knots, title={Of Ships}}\n@book{ropes, year=2020}")
    assert ["ropes"] == found(page)
    assert "Of Ships" in page.text


def test_a_paper_is_found_once(client: TestClient) -> None:
    """A paper is found once, however often a library has it."""
    assert ["ropes"] == found(send(client, "ropes\n10.5555/rope.1\nRopes, compared\n", "list.txt"))


def test_what_cannot_be_read_is_listed_with_its_line(client: TestClient) -> None:
    """A broken entry is listed with its line, and the others are found."""
    page = send(
        client,
        "@book{a, title={Kites in Still Air}}\n@book{b, title={Open\n@book{c, title={Knots: A Survey}}",
    )
    assert ["pmid:31452104", "knots"] == found(page)
    assert "Line 2" in page.text
    assert "not a valid BibTeX entry" in page.text
    broken = send(client, '[{"type": "book", "title": "Kites in Still Air", "issued": {}}, {', "my.json")
    assert ["pmid:31452104"] == found(broken)
    assert "the file ends early here" in broken.text


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (b"%PDF-1.7 \0\1", "paper.pdf", "This file is not text"),
        (b"\x1f\x8b\x08", "my.bib.gz", "none of them compressed"),
        (b" \n", "my.bib", "there was nothing in either"),
    ],
)
def test_what_is_no_library_is_refused(client: TestClient, content: bytes, name: str, words: str) -> None:
    """A file that is no library is refused with the reason, and the form is shown again."""
    page = send(client, content, name, status=422)
    assert words in page.text
    assert page.all("input", type="file")


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (b"file=x", "application/x-www-form-urlencoded", "not the form of this page"),
        (
            b"--x\r\nContent-Disposition: form-data; name=file\r\n\r\na\r\n--x--",
            "multipart/form-data; boundary=x",
            "no name",
        ),
        (
            b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\na',
            "multipart/form-data; boundary=x",
            "ends early",
        ),
        (b"", "multipart/form-data; boundary=x", "ends early"),
        (b"--x\r\n" * 600 + b"--x--", "multipart/form-data; boundary=x", "more than 500 fields"),
    ],
)
def test_a_form_that_is_none_is_refused(
    client: TestClient, body: bytes, content_type: str, words: str
) -> None:
    """A malformed form is refused with a page that says what was expected."""
    answer = client.post("/library", content=body, headers={"Content-Type": content_type})
    assert 422 == answer.status_code
    assert words in Page(answer.text).text


def test_a_form_is_read_as_browsers_write_it(client: TestClient) -> None:
    """Quoted boundaries, quotes in names, and dashes within a file are read."""
    file = 'Content-Disposition: form-data; name="file"; filename="a %22b%22.txt"\r\nContent-Type: text/plain'
    body = f"--a b\r\n{file}\r\n\r\nropes\n--a bc\n\r\n--a b--\r\n".encode()
    headers = {"Content-Type": 'multipart/form-data; boundary="a b"'}
    page = Page(client.post("/library", content=body, headers=headers).text)
    assert ["ropes"] == found(page)
    assert 'From a "b".txt' in page.text
    assert "--a bc" in page.text


def test_a_library_is_bounded(client: TestClient) -> None:
    """The bytes and entries of a library, and the missing papers listed, are limited."""
    answer = client.post("/library", files={"file": ("my.bib", b"x" * (MAX_LIBRARY_BYTES + 1))})
    assert 413 == answer.status_code
    assert "4,000,000 bytes" in Page(answer.text).text
    page = send(
        client, "".join(f"Title {number}\n" for number in range(MAX_ENTRIES + 1)) + "ropes\n", "list.txt"
    )
    assert [] == found(page)
    assert f"only the first {MAX_ENTRIES:,} entries were matched" in page.text
    assert MAX_LISTED == len(page.all("a", title="Similar"))
    assert f"And {MAX_ENTRIES - MAX_LISTED:,} more." in page.text


def test_reading_ends_at_the_deadline_also_without_rows(data: Path) -> None:
    """Reading a file raises DeadlineError after the deadline, even if the file has no row."""
    engine = open_engine(Settings(data=data, device="cpu"))
    with pytest.raises(DeadlineError):
        with_deadline(0, lambda: find_library(engine, b"@comment{nothing}\n" * 100, "my.bib"))


def test_no_more_are_ticked_than_a_search_takes(tmp_path: Path, hashing: Encoder) -> None:
    """Papers of the query count towards the limit of ticked papers, and are not ticked again."""
    papers = [{"id": f"p{number}", "title": f"Title {number}", "abstract": "We do."} for number in range(60)]
    build_quietly(write_corpus(tmp_path / "c.jsonl", papers), tmp_path / "data", hashing)
    with client_of(tmp_path / "data") as client:
        names = "".join(f"p{number}\n" for number in range(60))
        page = send(client, names, "list.txt", like=["p1", "p2"], paper="p0")
        assert 60 == len(found(page))
        ticked = [each["value"] for each in page.all("input", name="add") if "checked" in each]
        assert [f"p{number}" for number in range(3, 51)] == ticked
        assert "48 papers are ticked: the first that are not yet in the search, which takes 50" in page.text
        kept = [(each["name"], each["value"]) for each in page.all("input", type="hidden")]
        parameters = [(name, value) for name, value in kept if name in {"like", "paper"}][:3]
        assert 200 == client.get("/", params=[*parameters, *(("add", name) for name in ticked)]).status_code


def test_of_too_many_papers_the_first_are_searched_with(client: TestClient) -> None:
    """A link leads to the search with as many as an address may have, those of the query so far first."""
    chosen = [("paper", "knots"), ("like", "a"), ("in", "method"), *(("add", f"p{n}") for n in range(60))]
    parameters = [*chosen, ("in", "result"), ("each", "result"), ("from", "2000")]
    answer = client.get(f"/?{urlencode(parameters)}")
    assert 422 == answer.status_code
    assert "Search with the first 50 papers" in answer.text
    (link,) = [each["href"] for each in Page(answer.text).all("a", class_="main")]
    first = (Further("a", (Facet.METHOD,)), *(Further(f"p{n}", (Facet.RESULT,)) for n in range(49)))
    assert PageQuery(paper="knots", like=first, year_from=2000) == query_of(link)


def test_the_query_is_kept(client: TestClient) -> None:
    """The form and the found papers keep the query, and a facet applies only to the added papers."""
    page_query = PageQuery(
        paper="knots", like=(Further("ropes", (Facet.RESULT,)), Further("sails of paper")), year_from=2000
    )
    form = Page(client.get(page_query.address("/library")).text)
    hidden = [(each["name"], each["value"]) for each in form.all("input", type="hidden")]
    assert page_query == PageQuery.of(QueryParams(hidden))
    parts = [(name, (None, value)) for name, value in hidden]
    answer = client.post("/library", files=[*parts, ("file", ("my.bib", FILES["my.bib"]))])
    answered = answer.text.partition('<form action="/" data-plain>')[2].partition("</form>")[0]
    kept = [(each["name"], each["value"]) for each in Page(answered).all("input", type="hidden")]
    added = [("each", "background"), ("add", "pmid:31452104")]
    further = (*page_query.like, Further("pmid:31452104", (Facet.BACKGROUND,)))
    assert further == PageQuery.of(QueryParams([*kept, *added])).like


def test_long_abstracts_are_not_linked(client: TestClient) -> None:
    """Long abstracts link to a search for the title, and if all links get too long, later ones do, too."""
    long = send(client, f"@book{{a, title={{Long}}, abstract={{{'word ' * 2_100}}}}}")
    assert [PageQuery(text="Long")] == [query_of(each["href"]) for each in long.all("a", title="Similar")]
    entries = [f"@book{{k{i}, title={{Title {i}}}, abstract={{{'word ' * 1_000}}}}}\n" for i in range(100)]
    links = [query_of(each["href"]) for each in send(client, "".join(entries)).all("a", title="Similar")]
    assert {"", "Title 99"} == {links[0].text, links[99].text}
    assert 100 == len(links)


def test_names_of_files_and_entries_are_text(client: TestClient) -> None:
    """Markup in names of files and entries is shown as text."""
    answer = client.post(
        "/library", files={"file": ("<b>.bib", "@book{a, title={Nobody <script>alert(1)</script>}}")}
    )
    assert not re.search(r"<b>|<script>alert", answer.text)
    assert "From <b>.bib" in unescape(answer.text)


def test_a_library_needs_a_key_where_there_are_keys(data: Path, tmp_path: Path) -> None:
    """With keys, the form is open, but sending a library needs a key."""
    copy = copytree(data, tmp_path / "data")
    with Keys.open(copy / CATALOG_FILE) as keys:
        token = keys.create("reader", scope=Scope.READ, expires_days=1).token
    with client_of(copy) as client:
        assert "needs an API key" in Page(client.get("/library").text).text
        file = {"file": ("my.bib", FILES["my.bib"])}
        assert 401 == client.post("/library", files=file).status_code
        known = client.post("/library", files=file, headers={"X-API-Key": token})
        assert 200 == known.status_code


def test_a_query_that_cannot_be_read_is_refused(client: TestClient) -> None:
    """An invalid query is refused in the form's address and in the form."""
    assert "whole number" in Page(client.get("/library?n=x").text).text
    assert 422 == client.get("/library?n=x").status_code
    assert "whole number" in send(client, "ropes", "list.txt", status=422, n="x").text
