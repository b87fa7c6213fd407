"""Tests of the limits of addresses: more is refused in words, on a page of bounded size."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient
from starlette.datastructures import QueryParams

from models.errors import QueryError
from service.web.address.given import MAX_FURTHER_PAPERS, MAX_NAMES, MAX_SHOWN_CHARS
from service.web.address.page_query import PageQuery
from tests.support.clients import client_of
from tests.support.examples.pages import PAPER, page_at
from tests.support.growing import grows_too_fast


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo papers."""
    with client_of(hashed_data) as client:
        yield client


def names(n: int) -> list[str]:
    """Return ids that no paper has."""
    return [f"p{number}" for number in range(n)]


def address(**given: object) -> str:
    """Return the address of a query."""
    return f"/?{urlencode({name.rstrip('_'): value for name, value in given.items()}, doseq=True)}"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"like": names(700)}, "has 700 further papers, and 50 are allowed"),
        ({"like": names(30), "not": names(20), "add": "x"}, "has 51 further papers, and 50 are allowed"),
        ({"paper": PAPER, "venue": names(21)}, "has 21 venues, and 20 are allowed"),
        ({"paper": PAPER, "field": names(21)}, "has 21 fields, and 20 are allowed"),
        ({"author": names(21)}, "has 21 authors, and 20 are allowed"),
        ({"paper": PAPER, "s": range(1_001)}, "has 1,001 numbers of sentences, and 1,000 are allowed"),
        ({"paper": PAPER, "u": range(1_001)}, "has 1,001 numbers of sentences to be unlike, and 1,000 are"),
        ({"paper": "x" * 4_001}, "has 4,001 characters of ids and names, and 4,000 are allowed"),
        ({"like": ["x" * 2_000, "y" * 2_001]}, "has 4,001 characters of ids and names, and 4,000 are"),
        ({"text": "x" * 60_001}, "has 60,001 characters of text, and 60,000 are allowed"),
    ],
)
def test_too_much_is_refused_in_words(client: TestClient, given: dict[str, object], said: str) -> None:
    """Pages and files refuse too much with the number and the limit, without repeating the input."""
    path = address(**given)
    assert said in page_at(client, path, status=422).text
    assert said in client.get(path.replace("/?", "/results.bib?")).text
    assert len(client.get(path).content) < 20_000


PARAMETERS = (
    "paper text title abstract s u facet unlike like not add as in from to venue field author n view sort "
    "cursor open ticked x"
)


@pytest.mark.parametrize("name", PARAMETERS.split())
def test_an_address_is_looked_at_in_linear_time(name: str) -> None:
    """The time to read an address grows linearly with the number of values of a parameter."""

    def look(given: QueryParams) -> None:
        with suppress(QueryError):
            PageQuery.of(given)

    assert not grows_too_fast(
        look, lambda size: QueryParams([(name, f"s{n}") for n in range(size)]), size=500
    )


def test_what_is_allowed_is_answered(client: TestClient) -> None:
    """All limits can be reached at once, in addition to empty values that forms send."""
    further = [PAPER, *names(MAX_FURTHER_PAPERS - 1)]
    given = {"like": further, "venue": ["", *names(MAX_NAMES)], "field": ["", *names(MAX_NAMES)]}
    page = page_at(client, address(**given))
    assert MAX_FURTHER_PAPERS <= sum("like=" in link["href"] for link in page.all("a"))


def test_who_is_refused_for_now_can_try_again(hashed_data: Path) -> None:
    """The page of a refusal that passes has a link to the same address."""
    with client_of(hashed_data, rate=1) as client:
        pages = [client.get("/?text=floods", headers={"Accept": "text/html"}) for _ in range(3)]
    assert 429 == pages[-1].status_code
    assert '<a href="">Try again</a>' in pages[-1].text


def test_a_text_that_is_too_long_is_shown(client: TestClient) -> None:
    """A pasted text that is too long stays in its open box, if a request line can hold it."""
    text = "y" * (MAX_SHOWN_CHARS - len("Kites"))
    path = address(title="Kites", abstract=text)
    page = page_at(client, path, status=422)
    assert "59,995 characters, and 10,000 are allowed" in page.text
    assert "open" in page.all("details", class_="paste")[0]
    assert f"{text}</textarea>" in client.get(path).text
    assert not page.all("a", class_="main")


def test_a_page_grows_as_its_address_does(client: TestClient) -> None:
    """With ten times as many papers, too many of them, the page hardly grows."""
    some, many = (len(client.get(address(like=names(n))).content) for n in (70, 700))
    assert many < some + 100
