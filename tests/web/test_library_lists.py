"""Tests of lists of papers sent to the page, in the formats of people and programs."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from models.encoder import Encoder
from tests.support.builds import build_quietly, write_corpus
from tests.support.clients import client_of
from tests.support.examples.pages import Page

TITLES = {"ropes": "Ropes, Compared", "pmid:31452104": "Kites in Still Air", "1. x": "Sails", "x": "Knots"}
FILES = {
    "my list": "ropes\nKites in still air\nNobody has été\n",
    "my.bib": "@book{a, title={Ropes compared}}\n@book{b, title={Kites in Still Air}}\n@book{c, title={Été}}",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Iterator[TestClient]:
    """Yield a client of a service over four papers."""
    folder = tmp_path_factory.mktemp("lists")
    papers = [{"id": name, "title": title, "abstract": "We do."} for name, title in TITLES.items()]
    build_quietly(write_corpus(folder / "papers.jsonl", papers), folder / "data", hashing)
    with client_of(folder / "data") as client:
        yield client


def send(client: TestClient, content: bytes, name: str = "list.txt") -> tuple[list[str], str]:
    """Return the ids of the found papers, and the text of the page."""
    answer = client.post("/library", files={"file": (name, content)})
    assert 200 == answer.status_code
    page = Page(answer.text)
    return [each["value"] for each in page.all("input", name="add")], page.text


def test_lists_may_be_numbered_and_have_notes(client: TestClient) -> None:
    """Numbers, bullets and quotes of entries are ignored, notes are no entries, but a lone dash is one."""
    found, text = send(
        client, b"# mine\n1. Ropes, compared\n [3] PMID: 31452104\n- knots\n2) 'sails',\n  # end\n-\n"
    )
    assert ["ropes", "pmid:31452104", "x", "1. x"] == found
    assert "4 of 5 papers are in this collection" in text


@pytest.mark.parametrize("title", ["1984. A title", "2 Ropes", "3.5 Knots"])
def test_titles_may_begin_with_numbers(client: TestClient, title: str) -> None:
    """A title that begins with a number is searched and listed unchanged."""
    found, text = send(client, f"{title}\nropes\n".encode())
    assert ["ropes"] == found
    assert title in text


def test_an_id_may_look_numbered(client: TestClient) -> None:
    """The whole line is tried as an id before its number is removed."""
    assert ["1. x"] == send(client, b"1. x\n")[0]


def test_a_line_too_long_for_a_search_has_no_link(client: TestClient) -> None:
    """A missing title is linked to a search unless it is longer than a search accepts."""
    answer = client.post("/library", files={"file": ("list.txt", f"{'Gnomes ' * 300}\nElves\n".encode())})
    links = [each["href"] for each in Page(answer.text).all("a") if "Line" in str(each)]
    assert not any("Gnomes" in str(each.get("href")) for each in Page(answer.text).all("a"))
    assert any("Elves" in str(each.get("href")) for each in Page(answer.text).all("a")), links


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_files_of_windows_are_read(client: TestClient, name: str, encoding: str) -> None:
    """Files in UTF-16 and in UTF-8, both with a byte order mark, are read."""
    found, text = send(client, FILES[name].encode(encoding), name)
    assert ["ropes", "pmid:31452104"] == found
    assert "été" in text.lower()
