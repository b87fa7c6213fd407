"""Tests of comparing two papers in a browser: from a result, both ways, and refusals."""

from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import expect

from tests.support.clients import client_of
from tests.support.examples.page_queries import ID, PAPERS, QUERY_PATH, shown
from tests.support.servers.browser import VisitFn, barriers

OTHER = next(name for name in sorted(PAPERS) if name != ID)


def test_from_a_result_to_both_papers(visit: VisitFn) -> None:
    """A result links to a comparison with the query's paper, whose sentences link to the nearest ones."""
    page = visit(QUERY_PATH)
    title = shown(page)[0]
    page.locator("article.card").first.get_by_role("link", name="Side by side").click()
    expect(page.locator("h1")).to_have_text("Two papers side by side")
    expect(page.locator("#side-A")).to_contain_text(PAPERS[ID]["title"])
    expect(page.locator("#side-B")).to_contain_text(title)
    assert len(PAPERS[ID]["abstract"]) == page.locator("section[aria-labelledby='side-A'] .side li").count()
    near = page.locator("section[aria-labelledby='side-A'] .side a").first
    target = near.get_attribute("href")
    assert target is not None
    near.click()
    expect(page.locator(target)).to_be_in_viewport()
    expect(page.locator(".matrix svg")).to_be_visible()


def test_a_pasted_paper_beside_a_result(visit: VisitFn) -> None:
    """A pasted paper can be compared with a result, without a link to a page of the pasted paper."""
    text = "Rivers flood towns. We fit a graph network. It forecasts floods."
    page = visit(f"/?{urlencode({'title': 'A draft', 'abstract': text})}")
    title = shown(page)[0]
    page.locator("article.card").first.get_by_role("link", name="Side by side").click()
    expect(page.locator("#side-A")).to_contain_text("A draft")
    expect(page.locator("#side-B")).to_contain_text(title)
    assert 3 == page.locator("section[aria-labelledby='side-A'] .side li").count()
    assert 0 == page.locator("#side-A a").count() + page.get_by_role("link", name="Swap A and B").count()
    page.get_by_label("Second paper, B", exact=True).fill(OTHER)
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#side-A")).to_contain_text("A draft")
    expect(page.locator("#side-B")).to_contain_text(PAPERS[OTHER]["title"])


def test_turned_round(visit: VisitFn) -> None:
    """The link "Swap A and B" swaps the papers, and each title starts a search."""
    page = visit(f"/compare?a={quote(ID)}&b={quote(OTHER)}")
    page.get_by_role("link", name="Swap A and B").click()
    expect(page.locator("#side-A")).to_contain_text(PAPERS[OTHER]["title"])
    page.locator("#side-B a").click()
    expect(page.locator("article.card").first).to_be_visible()
    assert PAPERS[ID]["title"] in page.content()


@pytest.mark.parametrize("query", ["", "?a=" + quote(ID), "?a=" + quote(ID) + "&b=none", "?a=%20&b=x"])
def test_what_cannot_be_compared_is_said(visit: VisitFn, query: str) -> None:
    """If the papers cannot be compared, the page has a form to name both."""
    page = visit(f"/compare{query}")
    expect(page.get_by_role("alert")).to_have_count(1 if query else 0)
    page.get_by_label("First paper, A", exact=True).fill(ID)
    page.get_by_label("Second paper, B", exact=True).fill(PAPERS[OTHER]["title"])
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#side-B")).to_contain_text(PAPERS[OTHER]["title"])


def test_a_blank_abstract_and_a_busy_service_are_said_on_the_page(
    hashed_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors are always answered to browsers with a page, never with JSON."""
    with client_of(hashed_data, device="cpu") as client:
        blank = client.get("/compare", params={"abstract": " \u3000 ", "b": ID})
        monkeypatch.setattr("service.web.routes.compare_page.side_by_side", lambda *_: 1 / 0)
        failed = client.get("/compare", params={"a": ID, "b": OTHER})
    assert (422, 500) == (blank.status_code, failed.status_code)
    assert "only white space" in blank.text
    assert {"text/html; charset=utf-8"} == {each.headers["content-type"] for each in (blank, failed)}


@pytest.mark.parametrize("width", [400, 1280])
def test_everybody_can_use_it(visit: VisitFn, width: int) -> None:
    """The page has no barriers and is not wider than the window."""
    page = visit(
        f"/compare?a={quote(ID)}&b={quote(OTHER)}",
        viewport={"width": width, "height": 900},
        color_scheme="dark",
    )
    assert [] == barriers(page, of="all" if width == 1280 else "layout")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
