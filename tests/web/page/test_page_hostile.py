"""Tests of a hundred strings that try to be markup, in all parts of papers and queries: none runs."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import urlencode

import httpx
import pytest
from playwright.sync_api import Page, expect

from models.encoder import Encoder
from tests.support.builds import build_quietly, write_corpus
from tests.support.examples.xss import STRINGS
from tests.support.servers.browser import VisitFn, served_collection


def printable(text: str) -> str:
    """Return the part of a text that an id may contain."""
    return "".join(filter(str.isprintable, text)).strip()


IDS = [f"{number} {printable(each)}" for number, each in enumerate(STRINGS)]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Iterator[str]:
    """Yield the address of a service over a hundred papers with one of the strings in every text."""
    folder = tmp_path_factory.mktemp("hostile")
    papers = [
        {
            "id": name,
            "title": text,
            "abstract": [f"We propose {text}", text, f"{text} is shown."],
            "venue": text,
            "authors": [text, f"Second {text}"],
            "fields": [text],
            "url": f"https://127.0.0.2/{text}",
            "doi": text,
            "year": 2000 + number % 20,
        }
        for number, (name, text) in enumerate(zip(IDS, STRINGS, strict=True))
    ]
    build_quietly(write_corpus(folder / "papers.jsonl", papers), folder / "data", hashing)
    with served_collection(folder / "data") as address:
        yield address


def watched(page: Page) -> list[str]:
    """Return the list of dialogs that a page opens from now on, each of which means that a string ran."""
    ran: list[str] = []

    def note(dialog: object) -> None:
        ran.append(page.url)
        dialog.dismiss()  # type: ignore[attr-defined]  # a Dialog

    page.on("dialog", note)
    return ran


@pytest.mark.parametrize("bypass_csp", [True, False], ids=["by escaping alone", "under the policy"])
def test_no_string_of_the_collection_runs(visit_at: VisitFn, hostile: str, *, bypass_csp: bool) -> None:
    """With all hundred papers on an opened page, texts stay text, and links have http(s) addresses."""
    page = visit_at(hostile, "/batch", bypass_csp=bypass_csp)
    ran = watched(page)
    page.goto(f"/?{urlencode({'paper': IDS[0], 'n': 100})}")
    expect(page.locator("article.card")).to_have_count(99)
    page.locator("details").evaluate_all("all => all.forEach(each => each.open = true)")
    for card in page.locator("article.card .sentence").all()[::25]:
        card.hover()
    shown = set(page.locator("article.card h3").all_inner_texts())
    assert {" ".join(re.sub(r"[\x00-\x1f]", " ", text).split()) for text in STRINGS[1:]} == shown
    schemes = page.locator("a[href]").evaluate_all(
        "all => all.map(each => new URL(each.getAttribute('href'), location).protocol)"
    )
    assert {"http:", "https:"} >= set(schemes)
    page.locator("#result-50 a.why").click()
    expect(page.locator("#result-50 details.why svg")).to_be_visible()
    page.locator("#find").fill("alert")
    expect(page.locator(".titles li")).to_have_count(8)
    assert [] == ran


def test_no_string_of_a_query_runs(visit_at: VisitFn, hostile: str) -> None:
    """No string in any part of an address runs, even without the content security policy."""
    page = visit_at(hostile, "/batch", bypass_csp=True)
    ran = watched(page)
    for first in range(0, len(STRINGS), 20):
        some = STRINGS[first : first + 20]
        words = " . ".join(some)
        filters = {"venue": some, "field": some, "n": 1}
        pasted = {"title": words, "abstract": f"We. {words}", "not": some, **filters}
        for parameters in (pasted, {"text": words[:900], "like": some, **filters}):
            answer = page.goto(f"/?{urlencode(parameters, doseq=True)}", wait_until="domcontentloaded")
            assert answer is not None
            # A name matches parts of names; if too many match, the answer is 422.
            assert answer.status in {200, 422}
    assert [] == ran


class Markup(HTMLParser):
    """The parts of a page that could run or lead away."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note tags and attributes that no page may have."""
        given = dict(attrs)
        if tag in {"iframe", "object", "embed", "base", "style", "marquee", "math"}:
            self.faults.append(tag)
        if tag in {"script", "link", "img"} and not str(given.get("src", given.get("href"))).startswith(
            "/static/"
        ):
            self.faults.append(f"{tag} {given}")
        self.faults += [f"{tag} {name}" for name in given if name.startswith("on") or name == "style"]


@pytest.mark.parametrize("name", ["paper", "s", "facet", "u", "unlike", "n", "from", "cursor"])
def test_a_refused_value_is_no_markup(hostile: str, name: str) -> None:
    """An error page that repeats the query has it as text."""
    with httpx.Client(base_url=hostile) as client:
        for text in STRINGS[::2]:
            parameters = {"paper": IDS[0], name: text}
            answer = client.get("/", params=parameters)
            # The same texts are titles of papers, by which these are found.
            assert answer.status_code in {404, 410, 422, *([200] if name == "paper" else [])}, answer.text
            assert [] == Markup(answer.text).faults
