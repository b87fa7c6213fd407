"""Tests of results in a browser: their contents and links, and accessibility."""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.support.examples.page_queries import (
    ID,
    PAPER,
    PAPERS,
    PAPERS_BY_TITLE,
    QUERY_PATH,
    answered,
    shown,
)
from tests.support.servers.browser import VisitFn, barriers, held_requests


def lit(page: Page, within: str) -> list[str]:
    """Return the numbers of the highlighted sentences in a part of the page."""
    numbers: list[str] = page.locator(f"{within} .lit").evaluate_all(
        "all => all.map(each => each.dataset.s ?? each.dataset.q)"
    )
    return numbers


def meets(page: Page) -> dict[str, set[str]]:
    """Return the query sentences that each sentence of the first card matches."""
    pairs: list[tuple[str, str]] = (
        page.locator("article.card")
        .first.locator(".sentence")
        .evaluate_all("all => all.map(each => [each.dataset.s, each.dataset.m])")
    )
    return {number: {each.split(":")[0] for each in met.split()} for number, met in pairs}


def test_matches_light_up_both_ways(visit: VisitFn) -> None:
    """Hovering or focusing a sentence highlights its matches, from query to card and back."""
    page = visit(QUERY_PATH)
    met = meets(page)
    number = next(iter(set.union(*met.values())))
    expected = {sentence for sentence, numbers in met.items() if number in numbers}
    page.locator(f".choice[data-q='{number}'] .text").hover()
    assert expected == set(lit(page, "#result-1"))
    page.mouse.move(0, 0)
    assert [] == lit(page, "main")
    page.locator(f"#s{number}").focus()
    assert expected == set(lit(page, "#result-1"))
    sentence = page.locator("#result-1 .sentence").first
    sentence.focus()
    own = sentence.get_attribute("data-s")
    assert own is not None
    assert met[own] == set(lit(page, "#query"))
    page.locator("#result-1 .sentence").last.hover()
    own = page.locator("#result-1 .sentence").last.get_attribute("data-s")
    assert own is not None
    assert met[own] == set(lit(page, "#query"))


def test_a_card_opens_to_its_alignment(visit: VisitFn, site: str) -> None:
    """An opened card draws the alignment and lists the values that sum to the match."""
    page = visit(QUERY_PATH)
    card = page.locator("#result-1")
    card.locator("a.why").click()
    expect(card.get_by_role("img", name="Which sentences match")).to_be_visible()
    card.locator("details.values > summary").click()
    rows = card.locator("details.values tbody tr")
    first = httpx.post(f"{site}/v1/search", json={"query": {"paper_id": ID}, "limit": 1}).json()["results"][0]
    assert len(first["alignments"]) >= rows.count() > 0
    heaviest = max(first["alignments"], key=lambda each: each["weight"])
    expect(rows.first).to_contain_text(f"{heaviest['distance']:.2f}")


def test_pages_never_repeat_a_paper(visit: VisitFn) -> None:
    """The link "Next papers" leads through all papers except the query's, each exactly once."""
    page = visit(f"{QUERY_PATH}&n=25")
    titles = shown(page)
    while page.get_by_role("link", name="Next papers").count():
        first = titles[-1]
        page.get_by_role("link", name="Next papers").click()
        expect(page.get_by_text(first)).to_have_count(0)
        expect(page.locator("#results-title")).to_contain_text(f"{len(titles) + 1} to")
        titles += shown(page)
    assert sorted(paper["title"] for key, paper in PAPERS.items() if key != ID) == sorted(titles)


def test_a_link_keeps_the_whole_query(visit: VisitFn) -> None:
    """The permalink shows the same choices and the same papers to somebody else."""
    page = visit(f"{QUERY_PATH}&s=3&u=0&from=2015&not=demo:p00-m00")
    link = page.locator("a.stays").get_attribute("href")
    assert link is not None
    other = visit(link)
    assert shown(page) == shown(other)
    expect(other.locator("#s3")).to_be_checked()
    expect(other.locator("#u0")).to_be_checked()
    expect(other.locator(".seeds li.negative")).to_have_count(1)


def test_results_are_exported(visit: VisitFn, tmp_path: Path) -> None:
    """The papers of the page and of the whole list are downloaded as BibTeX, RIS and CSV."""
    page = visit(QUERY_PATH)
    page.locator(".save summary").click()
    for name, entry in (("BibTeX", r"^@"), ("RIS", r"^TY  - "), ("CSV", r'^"\d+","-')):
        for place, n_papers in ((0, 10), (1, 99)):
            with page.expect_download() as loading:
                page.locator(".save").get_by_role("link", name=name).nth(place).click()
            loading.value.save_as(tmp_path / name)
            text = (tmp_path / name).read_text(encoding="utf-8")
            assert n_papers == len(re.findall(entry, text, re.MULTILINE)), name


def test_results_are_skimmed_in_a_table(visit: VisitFn) -> None:
    """Table rows open to cards and close, and the address keeps the view and the order."""
    page = visit(f"{QUERY_PATH}&facet=method")
    titles = shown(page)
    page.get_by_role("link", name="Table", exact=True).click()
    rows = page.locator("tr.entry")
    expect(rows).to_have_count(10)
    assert titles == [each.inner_text() for each in rows.locator("th > a").all()]
    toggle = rows.nth(2).locator("a.expand")
    toggle.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#card-3 h3")).to_have_text(titles[2])
    expect(page.locator("#card-3").get_by_role("img", name="Which sentences match")).to_be_visible()
    expect(toggle).to_have_attribute("aria-expanded", "true")
    expect(toggle).to_be_focused()
    expect(page.locator("#card-3 .sentence").first).to_have_attribute("tabindex", "0")
    page.locator("#card-3 .sentence").first.hover()
    assert ["0"] == lit(page, "#card-3")
    toggle.click()
    expect(page.locator("article")).to_have_count(0)
    by_year = page.get_by_role("link", name=re.compile("The best [0-9]+, newest first"))
    by_year.click()
    expect(by_year).to_have_attribute("aria-current", "true")
    years = [PAPERS_BY_TITLE[each.inner_text()]["year"] for each in rows.locator("th > a").all()]
    assert sorted(years, reverse=True) == years
    page.get_by_role("link", name="Next papers").click()
    expect(page.locator("#results-title")).to_contain_text("11 to 20")
    older = [PAPERS_BY_TITLE[each.inner_text()]["year"] for each in rows.locator("th > a").all()]
    assert sorted(years + older, reverse=True) == years + older
    page.get_by_role("link", name="Previous papers").click()
    expect(page.locator("#results-title")).to_contain_text("Papers 1 to 10 of the best")
    assert "view=table&sort=year" in page.url


def test_a_row_opens_once_however_often_it_is_clicked(visit: VisitFn) -> None:
    """A click while its card is on the way asks for no second one; after that a click closes it."""
    page = visit(f"{QUERY_PATH}&view=table&n=3")
    held = held_requests(page, "**/?*open=*")
    with page.expect_request("**/?*open=*"):
        page.locator("#result-1 a.expand").dblclick()
    page.locator("#result-2 a.expand").click()
    while len(held) < 2:
        page.wait_for_timeout(20)
    for route in held:
        route.continue_()
    expect(page.locator("#card-2")).to_be_visible()
    expect(page.locator("#card-1")).to_have_count(1)
    assert 2 == page.locator("tr.whole").count() == len(held)
    page.locator("#result-1 a.expand").click()
    expect(page.locator("#card-1")).to_have_count(0)


def test_a_table_is_copied_for_a_paper(visit: VisitFn, site: str) -> None:
    """A button copies the table as LaTeX; if that fails, it offers to save the file."""
    page = visit(
        f"{QUERY_PATH}&facet=method&unlike=background", permissions=["clipboard-read", "clipboard-write"]
    )
    page.locator(".save summary").click()
    button = page.locator(".copies").get_by_role("button", name="LaTeX").first
    button.click()
    expect(page.locator(".copies").get_by_role("button", name="Copied")).to_be_visible()
    saved = httpx.get(f"{site}/results.tex?paper={ID}&facet=method&unlike=background").text
    assert saved == page.evaluate("navigator.clipboard.readText()")
    page.route("**/results.md?*", lambda route: route.fulfill(status=503, body=""))
    page.locator(".copies").get_by_role("button", name="Markdown").first.click()
    expect(page.locator(".copies").get_by_role("button", name="Save it instead")).to_be_visible()


def test_the_command_asks_the_same(visit: VisitFn, site: str) -> None:
    """The curl command gives the papers of the page, with seeds, facets and filters."""
    page = visit("/batch")
    for more in ("&s=3", "&u=2&from=2015", "&like=demo:p00-m00&n=25"):
        page.goto(QUERY_PATH + more)
        command = shlex.split(page.locator("#curl").text_content().replace("\\\n", " "))
        body = json.loads(command[command.index("-d") + 1])
        assert command[1].startswith(f"{site}/v1/")
        assert shown(page) == answered(site, command[1].removeprefix(site), **body)


def test_the_command_asks_for_all_papers_that_are_sorted(visit: VisitFn, site: str) -> None:
    """Newest first, the command gets all papers of the list, which the API does not sort."""
    page = visit(f"{QUERY_PATH}&sort=year")
    page.get_by_role("link", name="Next papers").click()
    expect(page.locator("#results-title")).to_contain_text("11 to 20")
    command = shlex.split(page.locator("#curl").text_content().replace("\\\n", " "))
    titles = answered(site, **json.loads(command[command.index("-d") + 1]))
    titles.sort(key=lambda title: -(PAPERS_BY_TITLE[title]["year"] or 0))
    assert titles[10:20] == shown(page)
    expect(page.locator(".take")).to_contain_text("sort these papers by year")


def test_command_and_link_are_copied(visit: VisitFn, site: str) -> None:
    """Buttons copy the command, or the link to the page, to the clipboard."""
    page = visit(QUERY_PATH, permissions=["clipboard-read", "clipboard-write"])
    page.locator(".take summary").click()
    page.locator("button[data-copy=curl]").click()
    expect(page.locator("button[data-copy=curl]")).to_have_text("Copied")
    page.locator("button[data-copy=curl]").click()
    expect(page.locator("button[data-copy=curl]")).to_have_text("Copy")  # however often it was clicked
    assert page.locator("#curl").text_content() == page.evaluate("navigator.clipboard.readText()")
    page.locator("button[data-copy=link]").click()
    expect(page.locator("button[data-copy=link]")).to_have_text("Copied")
    link = page.locator("a.stays").get_attribute("href")
    assert f"{site}{link}" == page.evaluate("navigator.clipboard.readText()")


def test_without_scripts_one_finds_chooses_and_pages(visit: VisitFn) -> None:
    """Without JavaScript one can find by title, choose a facet and sentences, open cards and page."""
    page = visit("/", java_script_enabled=False)
    page.get_by_role("searchbox").fill("pocket predictors understand chemistry")
    page.get_by_role("button", name="Find", exact=True).click()
    page.locator("#meant").get_by_role("link", name=PAPER["title"]).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(PAPER["title"])
    whole = shown(page)
    facet = page.locator(".choice .facet").first.inner_text().lower()
    page.locator(f"#query a.chip.{facet}").first.click()
    assert whole != shown(page)
    page.locator("#query a.chip").first.click()
    page.locator("#s3").check()
    page.locator("noscript button").click()
    expect(page.locator("#s3")).to_be_checked()
    page.locator("#result-1 a.why").click()
    expect(page.locator("#result-1 details.why svg")).to_be_visible()
    first = shown(page)
    page.get_by_role("link", name="Next papers").click()
    assert not set(first) & set(shown(page))
    page.get_by_role("link", name="Table", exact=True).click()
    page.locator("#result-12 a.expand").click()
    expect(page.locator("#card-12 details.why svg")).to_be_visible()
    page.locator("#result-12 a.expand").click()
    expect(page.locator("article")).to_have_count(0)


def test_everything_can_be_done_by_keyboard(visit: VisitFn) -> None:
    """Tab, Space, arrows and Enter lead from the start to an opened alignment, with visible focus."""
    page = visit("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    tab_to(page, "#find")
    page.keyboard.type("pocket")
    expect(page.get_by_role("option").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#results-title")).to_be_focused()
    page.locator("a.name").focus()
    tab_to(page, "#s3")
    page.keyboard.press("Space")
    expect(page).to_have_url(re.compile(r"[?&]s=3"))
    expect(page.locator("#s3")).to_be_focused()
    tab_to(page, "#result-1 .sentence")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#result-1 .abstract").first.locator(".sentence").nth(1)).to_be_focused()
    assert lit(page, "#query")
    tab_to(page, "#result-1 a.why")
    page.keyboard.press("Enter")
    expect(page.locator("#result-1 details.why svg")).to_be_visible()


# Whether the focus is visible, by an outline or a thicker line in a drawing, and whether it matches.
FOCUS = """selector => {
    const at = document.activeElement;
    const parts = [at, at.parentElement, ...at.querySelectorAll("circle, rect")].filter(Boolean);
    const seen = parts.map((part) => getComputedStyle(part)).some((style) =>
        (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2) ||
        (style.stroke !== "none" && parseFloat(style.strokeWidth) >= 2));
    return [seen || at === document.body, at.matches(selector)];
}"""


def tab_to(page: Page, selector: str, *, most: int = 120) -> None:
    """Press Tab until an element has the focus, and check that every focus on the way is visible."""
    for _ in range(most):
        page.keyboard.press("Tab")
        seen, there = page.evaluate(FOCUS, selector)
        assert seen, page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
        if there:
            return
    pytest.fail(f"the focus never reached {selector}")


def test_one_comes_back_to_where_one_was(visit: VisitFn) -> None:
    """Reloading, and going back from another page, restores the scroll position."""
    page = visit(QUERY_PATH)
    page.evaluate("scrollTo(0, 900)")
    page.reload(wait_until="load")
    page.wait_for_timeout(100)
    assert 900 == page.evaluate("scrollY")
    for other in ("/batch", f"/compare?a={ID}&b=demo:p00-m00"):
        page.goto(other)
        page.evaluate("scrollTo(0, 100)")
        page.go_back(wait_until="load")
        page.wait_for_timeout(100)
        assert 900 == page.evaluate("scrollY")


@pytest.mark.parametrize(("view", "link"), [("cards", "a.why"), ("table", "a.expand")])
def test_what_was_opened_is_in_the_address(visit: VisitFn, view: str, link: str) -> None:
    """Back and a reload show the card or row that was opened last, and nothing once it is closed."""
    page = visit(f"{QUERY_PATH}&view={view}")
    page.locator(f"#result-2 {link}").click()
    expect(page.locator("details.why svg")).to_be_visible()
    expect(page).to_have_url(re.compile(r"[?&]open=2\b"))
    page.get_by_role("link", name="Next papers").click()
    expect(page.locator("#results-title")).to_contain_text("11 to 20")
    page.go_back()
    expect(page.locator("details.why svg")).to_be_visible()
    page.reload()
    expect(page.locator("details.why svg")).to_be_visible()
    page.locator("#result-2 a.expand" if view == "table" else "details.why > summary").click()
    expect(page).to_have_url(re.compile(r"^(?!.*open=)"))


def test_a_card_that_comes_late_leaves_the_next_search_alone(visit: VisitFn) -> None:
    """A card whose answer comes after the next search does not get into the address of that search."""
    page = visit(QUERY_PATH)
    held = held_requests(page, "**/?*open=*")
    page.locator("#result-2 a.why").click()
    page.locator("label:has(#s3)").click()
    page.wait_for_url("**s=3")
    with page.expect_response("**/?*open=*"):
        held[0].continue_()
    page.locator("#result-3 a.why").click()  # until it is answered, so is the first
    while len(held) < 2:
        page.wait_for_timeout(20)
    assert "open=" not in page.url
    held[1].continue_()
    expect(page.locator("#result-3 details.why")).to_be_visible()


def test_a_card_that_cannot_be_opened_says_so(visit: VisitFn) -> None:
    """If a card cannot be opened because the service is busy, the page stays with "Try again"."""
    page = visit(QUERY_PATH)
    page.route("**/?*open=*", lambda route: route.fulfill(status=503, content_type="text/html", body="<p>"))
    page.locator("#result-1 a.why").click()
    expect(page.get_by_role("alert")).to_contain_text("too busy")
    page.unroute("**/?*open=*")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#result-1 details.why svg")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_failed_way_back_is_tried_again_without_a_step_more(visit_at: VisitFn, site: str) -> None:
    """Going back while the service is away, then trying again, leaves the history unchanged."""
    page = visit_at(site, QUERY_PATH)  # a new tab, as a long history grows no more
    page.locator("#query .chips a.chip").nth(1).click()
    expect(page).to_have_url(re.compile("facet="))
    length = page.evaluate("history.length")
    page.route("**/?*", lambda route: route.abort())
    page.go_back()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    page.unroute("**/?*")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("#query .chips a.chip").first).to_have_attribute("aria-current", "true")
    assert length == page.evaluate("history.length")
    page.go_forward()
    expect(page).to_have_url(re.compile("facet="))


@pytest.mark.parametrize("away", [True, False])
def test_forward_after_a_way_back_without_an_answer(visit_at: VisitFn, site: str, *, away: bool) -> None:
    """If the address is again that of the page that is shown, nothing older can be tried, nor comes late."""
    page = visit_at(site, QUERY_PATH)
    whole = shown(page)
    page.locator("#query .chips a.chip.method").first.click()
    expect(page).to_have_url(re.compile("facet=method"))
    held = held_requests(page, "**/?*")
    if away:
        page.route("**/?*", lambda route: route.abort())
    page.go_back()
    waits = page.get_by_role("button", name="Try again") if away else page.locator(".loading")
    expect(waits).to_be_visible()
    page.go_forward()
    expect(page).to_have_url(re.compile("facet=method"))
    expect(waits).to_have_count(0)
    for route in held:
        route.continue_()
    page.wait_for_timeout(200)  # for the answer to be read, if it is
    assert whole != shown(page)
    expect(page.locator("#query .chips a.chip.method").first).to_have_attribute("aria-current", "true")


def test_a_link_within_the_page_does_not_end_a_search(visit: VisitFn) -> None:
    """Who goes to a card while an answer is on its way still gets the answer."""
    page = visit(QUERY_PATH)
    held = held_requests(page, "**/?*")
    page.locator("label:has(#s3)").click()
    expect(page.locator(".loading")).to_be_visible()
    page.locator(".timeline a.dot[href='#result-7']").click()
    expect(page).to_have_url(re.compile("#result-7$"))
    held[0].continue_()
    expect(page).to_have_url(re.compile("s=3$"))


RICH = f"{QUERY_PATH}&s=3&u=0&from=2010&not=demo:p00-m00&like=demo:p01-m00&in=method&open=1&n=3"
LOOKED_AT = (
    "/",
    "/library",
    RICH,
    f"{QUERY_PATH}&from=2100",
    "/?field=Hydrology&from=2015",
    f"{QUERY_PATH}&facet=method&view=table&n=3&open=2",
    "/?paper=nowhere",
)


@pytest.mark.parametrize(
    ("width", "scheme", "addresses"),
    [
        pytest.param(320, "dark", LOOKED_AT, id="320-dark"),
        pytest.param(1280, "light", [RICH], id="1280-light"),
        pytest.param(1280, "light", LOOKED_AT, id="1280-light-all", marks=pytest.mark.trial),
    ],
)
def test_nobody_is_kept_out(visit: VisitFn, width: int, scheme: str, addresses: Sequence[str]) -> None:
    """axe-core finds no barrier, by WCAG 2.2 AA and more, and no page is wider than the window."""
    found = []
    page = visit("/", color_scheme=scheme, viewport={"width": width, "height": 900})
    for address in addresses:
        page.goto(address)
        page.locator("details").evaluate_all("all => all.slice(0, 12).forEach(each => each.open = true)")
        found += [
            f"{address} {barrier}" for barrier in barriers(page, of="all" if scheme == "dark" else "colours")
        ]
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
    assert [] == found


def test_long_texts_fit(visit: VisitFn) -> None:
    """A long title without spaces and thirty sentences fit into a narrow window."""
    abstract = " ".join(f"Sentence number {number} says {'very ' * 20}much." for number in range(30))
    address = f"/?title={'W' * 300}&abstract={quote(abstract)}"
    page = visit(address, viewport={"width": 360, "height": 900})
    expect(page.locator(".choice")).to_have_count(30)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_policies_are_strict(site: str) -> None:
    """Pages allow nothing inline, and their scripts are cached for ever."""
    addresses, scripts = ["/batch", QUERY_PATH], set[str]()
    with httpx.Client(base_url=site) as client:
        while addresses:
            address = addresses.pop()
            answer = client.get(address).raise_for_status()
            found = re.findall(r"""(?:src=|from |import )["']([^"']+\.js)["']""", answer.text)
            addresses += {str(answer.url.join(each).path) for each in found} - scripts
            if address.endswith(".js"):
                scripts.add(address)
                assert "immutable" in answer.headers["Cache-Control"]
            else:
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
                assert "unsafe" not in policy
    assert len(scripts) >= 3
