"""Tests of everyday use in a browser: going back, phones, printing, keyboard, and no JavaScript."""

from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import expect

from tests.support.examples.page_queries import ID, PAPER, QUERY_PATH
from tests.support.servers.browser import VisitFn, barriers

PHONE = {"width": 390, "height": 800}


@pytest.mark.parametrize("way", ["link", "box", "title"])
def test_back_to_a_library(visit: VisitFn, way: str) -> None:
    """Going back from a search shows the matched library again."""
    page = visit("/library", viewport=PHONE)
    page.locator("#list").fill(f"{PAPER['title']}\nNobody Has This")
    page.get_by_role("button", name="Match these papers").click()
    found = page.get_by_role("heading", level=1, name="1 of 2 papers are in this collection")
    expect(found).to_be_visible()
    if way == "link":
        page.get_by_role("link", name="Search from this one").click()
    else:
        page.locator("#find").fill("pocket predict")
        if way == "title":
            page.locator(".top .titles li").first.click()
        else:
            page.keyboard.press("Enter")
    expect(page.locator("article.card")).to_have_count(10)
    page.go_back()
    expect(found).to_be_visible()
    expect(page.locator(".lacking")).to_contain_text("Nobody Has This")


@pytest.mark.parametrize("scripts", [True, False])
def test_the_next_papers_are_in_sight_on_a_phone(visit: VisitFn, *, scripts: bool) -> None:
    """On a phone the next page of results scrolls to the results."""
    page = visit(QUERY_PATH, viewport=PHONE, java_script_enabled=scripts)
    page.get_by_role("link", name="Next papers").click()
    expect(page.locator("#results-title")).to_contain_text("11 to 20")
    expect(page.locator("#results-title")).to_be_in_viewport()
    expect(page.locator("#query h1")).not_to_be_in_viewport()
    assert scripts != page.url.endswith("#results")


def test_the_next_papers_begin_at_the_top_of_a_wide_window(visit: VisitFn) -> None:
    """In a wide window the next page of results begins at the top, next to the query."""
    page = visit(QUERY_PATH)
    page.get_by_role("link", name="Next papers").click()
    expect(page.locator("#results-title")).to_contain_text("11 to 20")
    assert 0 == page.evaluate("scrollY")


def test_back_from_a_place_within_the_page(visit: VisitFn) -> None:
    """Going back from a link within the page scrolls to where it was clicked, and forward to its place."""
    page = visit(QUERY_PATH)
    page.locator(".timeline a.dot[href='#result-7']").click()
    expect(page.locator("#result-7")).to_be_in_viewport()
    page.go_back()
    page.wait_for_function("scrollY === 0")
    page.go_forward()
    expect(page.locator("#result-7")).to_be_in_viewport()


def test_what_is_found_at_the_top_keeps_the_filters(visit: VisitFn) -> None:
    """Searches by the box at the top keep the filters, including those set later."""
    page = visit(f"{QUERY_PATH}&view=table")
    page.locator("summary", has_text="Edit the search").click()
    page.locator("#filters-title").click()
    page.locator("#from").fill("2001")
    page.locator("#apply").click()
    page.wait_for_url("**from=2001**")
    expect(page.locator(".top .find [name=from]")).to_have_value("2001")
    page.locator("#find").fill("pocket predict")
    page.locator(".top .titles li").first.click()
    page.wait_for_url("**from=2001**view=table**")
    assert [ID] == parse_qs(urlsplit(page.url).query)["paper"]
    page.locator("#find").fill("how floods are forecast")
    page.keyboard.press("Enter")
    page.wait_for_url("**text=how**")
    assert {"text", "from", "view"} == set(parse_qs(urlsplit(page.url).query))


def test_without_scripts_nothing_is_offered_that_needs_them(visit: VisitFn, site: str) -> None:
    """Without JavaScript a saved search has no button to delete it, and the page says so."""
    body = {"name": "Mine", "search": {"query": {"text": "floods"}}}
    saved = httpx.post(f"{site}/v1/queries", json=body).raise_for_status().json()
    page = visit("/saved", java_script_enabled=False)
    expect(page.locator(".kept li").first).to_be_visible()
    assert 0 == page.get_by_role("button", name="Delete").count()
    expect(page.get_by_text("Deleting a search needs JavaScript")).to_be_visible()
    page.goto(f"/saved/{saved['id']}")
    assert [] == [each for each in page.locator(".change").all() if each.is_visible()]
    httpx.delete(f"{site}/v1/queries/{saved['id']}").raise_for_status()


def test_a_print_has_measures_and_no_controls(visit: VisitFn) -> None:
    """A print has the measures and no controls."""
    page = visit(f"{QUERY_PATH}&facet=method&like=demo:p01-m00", viewport={"width": 800, "height": 1000})
    page.emulate_media(media="print")
    for shown in (".card .closeness", ".card .strength", ".choice .text", ".seeds li"):
        expect(page.locator(shown).first).to_be_visible()
    hidden = ".to-results, .keep, .save, .results-head .row, .away, .chips, .legend, .seeds > p, .drop, .go a"
    assert page.locator(hidden).count() > 20
    assert [] == [each for each in page.locator(hidden).all() if each.is_visible()]
    # The demo papers have no addresses.
    link = """<a href="https://doi.org/10.1/x" rel="noopener noreferrer">Open</a>"""
    page.locator(".go").first.evaluate("(row, link) => row.insertAdjacentHTML('beforeend', link)", link)
    printed = "each => getComputedStyle(each, '::after').content"
    assert '"https://doi.org/10.1/x"' == page.locator(".go a[rel]").evaluate(printed)
    page.emulate_media(media="screen")


def test_choices_are_distinguished_in_forced_colours(visit: VisitFn) -> None:
    """If the system forces its colours, chosen facets, avoided sentences and the marked title look so."""
    page = visit(f"{QUERY_PATH}&facet=method&u=0", forced_colors="active")
    page.locator("#find").fill("for")
    expect(page.locator(".top .titles li").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    looks = """each => {
        const style = getComputedStyle(each);
        return [style.backgroundColor, style.color, style.outlineStyle];
    }"""
    for chosen, other in (
        ("#facet-method", "#facet-result"),
        (".away:has(#u0)", ".away:has(#u1)"),
        (".titles [aria-selected=true]", ".titles [aria-selected=false]"),
    ):
        assert page.locator(chosen).evaluate(looks) != page.locator(other).first.evaluate(looks), chosen


def test_the_results_are_skipped_to(visit: VisitFn) -> None:
    """A skip link leads to the results, even if they came without loading a page."""
    page = visit("/")
    assert 1 == page.locator("#skips a").count()
    page.locator("#find").fill("how floods are forecast")
    page.keyboard.press("Enter")
    expect(page.locator("article.card")).to_have_count(10)
    page.locator("#skips a").nth(1).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#results-title")).to_be_focused()
    expect(page.locator("article.card")).to_have_count(10)
    assert [] == barriers(page, of="layout")


@pytest.mark.parametrize(("view", "first"), [("cards", "h3 a"), ("table", "a.expand")])
def test_the_first_paper_is_skipped_to(visit: VisitFn, view: str, first: str) -> None:
    """A skip link leads to the first paper, and the dots of the timeline are no stops of Tab."""
    page = visit(f"{QUERY_PATH}&view={view}")
    page.get_by_role("link", name="Skip to the first paper").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("#result-1").locator(first)).to_be_focused()
    assert {-1} == {dot.evaluate("each => each.tabIndex") for dot in page.locator(".timeline a.dot").all()}


def test_right_to_left_text_is_set_from_the_right(visit: VisitFn) -> None:
    """A short right-to-left sentence begins at the right, and names of a suggestion keep their order."""
    page = visit("/?abstract=אנחנו+קושרים+חבלים.")
    ends = "each => [each, each.parentElement].map((part) => part.getBoundingClientRect().right)"
    sentence, line = page.locator(".choice label > [dir]").evaluate(ends)
    assert line - sentence < 10
    found = {"id": "p", "title": "T", "authors": ["محمد علي"], "venue": "מדע", "year": 2012}
    page.route("**/v1/papers/suggest?*", lambda route: route.fulfill(json={"results": [found]}))
    page.locator("#find").fill("for")
    about = page.locator(".top .titles .about")
    assert "\u2068محمد علي\u2069 · \u2068מדע\u2069 · 2012" == about.text_content()


def test_a_long_title_is_cut_with_a_sign(visit: VisitFn) -> None:
    """A long title is cut to six lines, and its tooltip has all of it."""
    title = "A very long title of a draft on floods and towns " * 12
    page = visit("/")
    page.goto("/?title=" + title.strip().replace(" ", "+") + "&abstract=We+fit+a+network.")
    heading = page.locator("#query h1")
    assert title.strip() == heading.get_attribute("title")
    assert ["6", "hidden"] == heading.evaluate(
        "each => [getComputedStyle(each).webkitLineClamp, getComputedStyle(each).overflowY]"
    )
    assert heading.evaluate("each => each.scrollHeight > each.clientHeight")
