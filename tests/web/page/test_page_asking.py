"""Tests of the page in a browser: finding a paper, choosing parts of it, and refining the query."""

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

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


def choose(page: Page, name: str) -> None:
    """Tick a box, and wait for the results."""
    before = page.url
    page.locator(f"label:has({name})").click()
    # The address changes with the results, which an answer may precede.
    page.wait_for_url(lambda url: url != before)
    expect(page.locator(name)).to_be_checked()


@pytest.mark.smoke
def test_a_paper_is_found_while_typing(visit: VisitFn) -> None:
    """Words of a title, even mistyped, suggest the paper, and arrows and Enter select it."""
    page = visit("/")
    box = page.get_by_role("combobox")
    box.fill("Pockt Predictors Undrestand Chemstry")
    expect(page.get_by_role("option").first).to_contain_text(PAPER["title"])
    box.fill("")
    expect(page.get_by_role("option")).to_have_count(0)
    box.press_sequentially("pocket predict")
    expect(page.get_by_role("option").first).to_contain_text(PAPER["title"])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(PAPER["title"])
    assert ID in page.locator("input[name=paper]").evaluate("box => box.value")


@pytest.mark.parametrize("by", ["arrows", "mouse"])
def test_a_later_list_does_not_take_away_what_is_chosen(visit: VisitFn, by: str) -> None:
    """A late list of titles does not replace the one in which a title is being chosen."""
    page = visit("/")
    late: list[Route] = []
    page.route("**/v1/papers/suggest?*predictors*", lambda route: late.append(route))  # noqa: PLW0108 - Playwright sets attributes of it
    box = page.get_by_role("combobox")
    box.fill("pocket predict")
    expect(page.get_by_role("option").first).to_contain_text(PAPER["title"])
    with page.expect_request("**/v1/papers/suggest?*predictors*"):
        box.press_sequentially("ors")
    if by == "arrows":
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("option", selected=True)).to_have_count(1)
    else:
        page.get_by_role("option").first.hover()
        page.mouse.down()
    for each in late:
        each.fulfill(json={"results": []})
    page.wait_for_timeout(200)  # for a list to be read, if it is
    page.keyboard.press("Enter") if by == "arrows" else page.mouse.up()
    expect(page.get_by_role("heading", level=1)).to_have_text(PAPER["title"])


def test_escape_closes_the_titles(visit: VisitFn) -> None:
    """Escape closes the list of titles and keeps the typed text."""
    page = visit("/")
    box = page.get_by_role("combobox")
    box.fill("pocket")
    expect(page.get_by_role("listbox")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_be_hidden()
    expect(box).to_have_attribute("aria-expanded", "false")
    assert "pocket" == box.input_value()


@pytest.mark.smoke
def test_an_abstract_is_pasted(visit: VisitFn, site: str) -> None:
    """A pasted abstract is split into sentences to choose from, and the address keeps all of it."""
    page = visit("/")
    page.locator("#paste summary").click()
    page.locator("#paste").get_by_label("Title").fill(PAPER["title"])
    page.locator("#paste").get_by_label("Abstract").fill(" ".join(PAPER["abstract"]))
    page.locator("#paste").get_by_role("button").click()
    expect(page.locator(".choice")).to_have_count(7)
    expect(page.locator("article.card h3").first).to_have_text(PAPER["title"])
    choose(page, "#s3")
    again = visit(page.url)
    assert shown(page) == shown(again)
    expect(again.locator("#s3")).to_be_checked()


@pytest.mark.parametrize("scripts", [True, False])
def test_another_text_has_no_sentence_of_the_old_one_ticked(visit: VisitFn, *, scripts: bool) -> None:
    """A pasted text that is changed is searched as a whole; filters stay."""
    text = "Rivers flood towns. We fit a graph network. It forecasts floods."
    address = f"/?abstract={text.replace(' ', '+')}&s=1&u=2&from=2000"
    page = visit(address) if scripts else visit(address, java_script_enabled=False)
    page.get_by_text("Change the text").click()
    page.locator("#abstract").fill("We measure how quickly ropes wear.")
    page.get_by_role("button", name="Find similar papers").click()
    expect(page.locator(".choice")).to_have_count(1)
    expect(page.locator("article.card")).to_have_count(10)
    parameters = parse_qs(urlsplit(page.url).query)
    assert {"abstract": ["We measure how quickly ropes wear."], "from": ["2000"]} == parameters


def test_a_text_that_is_being_changed_is_not_searched_yet(visit: VisitFn) -> None:
    """A tick, or Enter in a filter, searches in the text that is shown; what was typed stays."""
    page = visit("/?abstract=Rivers+flood+towns.+We+fit+a+graph+network.&s=1")
    page.get_by_text("Change the text").click()
    page.locator("#abstract").fill("We measure ropes.")
    page.locator(".filters summary").click()
    page.get_by_label("From year").fill("2001")
    page.keyboard.press("Enter")
    expect(page.locator(".filters a.chip.on")).to_be_visible()
    expect(page.locator("#s1")).to_be_checked()
    choose(page, "#s0")
    expect(page.locator("#abstract")).to_have_value("We measure ropes.")
    page.get_by_label("To year").fill("2024")
    page.get_by_role("button", name="Find similar papers").click()
    expect(page.locator(".choice")).to_have_count(1)
    expect(page.get_by_label("To year")).to_have_value("2024")


LIBRARY = f"@book{{a, title={{{PAPER['title']}}}}}\n@book{{b, title={{Nobody Has This}}}}\n"
# A dropped file.
DROPPED = """text => {
    const carried = new DataTransfer();
    carried.items.add(new File([text], "my.bib"));
    return carried;
}"""


@pytest.mark.parametrize("scripts", [True, False])
def test_one_starts_from_a_library(visit: VisitFn, tmp_path: Path, *, scripts: bool) -> None:
    """Papers of a file that are in the collection are seeds, with a chosen facet; others are listed."""
    (tmp_path / "my.bib").write_text(LIBRARY)
    page = visit("/", viewport={"width": 400, "height": 800}, java_script_enabled=scripts)
    page.locator("#library summary").click()
    page.locator("#file").set_input_files(tmp_path / "my.bib")
    page.get_by_role("button", name="Match these papers").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("1 of 2 papers are in this collection")
    expect(page.locator(".lacking")).to_contain_text("Nobody Has This")
    if scripts:
        assert [] == barriers(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.locator("#each").select_option("their method")
    page.get_by_role("button", name="Find similar papers").click()
    expect(page.locator(".summary")).to_contain_text("in method")
    expect(page.locator(".seeds li.positive")).to_contain_text(PAPER["title"])
    expect(page.locator("article.card")).to_have_count(10)


def test_no_more_papers_are_ticked_than_a_search_takes(visit: VisitFn) -> None:
    """At the limit the other papers of a library cannot be ticked, until one is left out."""
    page = visit("/library")
    page.locator("#list").fill("\n".join([*PAPERS][:60]))
    page.get_by_role("button", name="Match these papers").click()
    waiting = page.locator(".ticks input:disabled")
    expect(waiting).to_have_count(10)
    page.locator(".ticks input").first.uncheck()
    expect(waiting).to_have_count(0)
    page.locator(".ticks input").last.check()
    expect(waiting).to_have_count(10)
    page.get_by_role("button", name="Untick all").click()
    expect(page.locator(".ticks input:checked")).to_have_count(0)
    expect(waiting).to_have_count(0)
    page.locator(".ticks input").first.check()
    page.locator(".ticks input").last.check()
    page.get_by_role("button", name="Find similar papers").click()
    expect(page.locator(".seeds li.positive")).to_have_count(2)


def test_a_file_is_dropped(visit: VisitFn) -> None:
    """A file dropped on results adds its papers to the query, which is kept."""
    page = visit("/?paper=demo:p01-m00&facet=method")
    for event in ("dragover", "drop"):
        file = page.evaluate_handle(DROPPED, LIBRARY)
        page.dispatch_event("main", event, {"dataTransfer": file})
        if event == "dragover":
            expect(page.locator("html.dropping")).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_text("1 of 2 papers are in this collection")
    page.get_by_role("button", name="Find similar papers").click()
    expect(page.locator(".summary .part")).to_have_count(3)
    expect(page.locator(".summary")).to_contain_text(PAPER["title"])
    expect(page.locator("#query a.chip.method.on").first).to_be_visible()


def test_text_that_is_dropped_is_left_to_the_browser(visit: VisitFn) -> None:
    """Dropped text is not taken for a file."""
    page = visit(QUERY_PATH)
    text = page.evaluate_handle(
        "() => { const carried = new DataTransfer(); carried.setData('text/plain', 'x'); return carried; }"
    )
    for event in ("dragover", "drop"):
        page.dispatch_event("main", event, {"dataTransfer": text})
    expect(page.locator("html.dropping")).to_have_count(0)
    expect(page.locator("article.card")).to_have_count(10)


def test_a_short_text_is_looked_for(visit: VisitFn, site: str) -> None:
    """A short text gets its results, and the paper whose title it may be."""
    page = visit("/")
    page.get_by_role("combobox").fill("Do predictors understand chemistry or fame")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator("article.card")).to_have_count(10)
    assert answered(site, query={"text": "Do predictors understand chemistry or fame"}) == shown(page)
    expect(page.locator("#meant")).to_contain_text(PAPER["title"])


def test_a_facet_is_chosen(visit: VisitFn, site: str) -> None:
    """Choosing a facet ticks its sentences and gives the results of the same API request."""
    page = visit(QUERY_PATH)
    facet = page.locator(".choice .facet").first.inner_text().lower()
    page.locator(f"#query a.chip.{facet}").first.click()
    expect(page.locator("#query a.chip.on").first).to_contain_text(facet)
    ticked = page.locator(".choice input[name=s]:checked")
    assert page.locator(f".choice.{facet}").count() == ticked.count()
    assert answered(site, query={"paper_id": ID}, facet=facet) == shown(page)


def test_sentences_are_chosen_and_others_marked_unlike(visit: VisitFn, site: str) -> None:
    """Ticking a sentence as unlike unticks it as like, and going back restores each state."""
    page = visit(QUERY_PATH)
    whole = shown(page)
    choose(page, "#s3")
    choose(page, "#s4")
    assert answered(site, query={"paper_id": ID}, sentences=[3, 4]) == shown(page)
    like = shown(page)
    choose(page, "#u4")
    expect(page.locator("#s4")).not_to_be_checked()
    assert answered(site, query={"paper_id": ID}, sentences=[3], unlike={"sentences": [4]}) == shown(page)
    page.go_back()
    expect(page.locator("#s4")).to_be_checked()
    assert like == shown(page)
    page.go_back()
    page.go_back()
    expect(page.locator(".choice input:checked")).to_have_count(0)
    assert whole == shown(page)


def select(page: Page, *sentences: int) -> None:
    """Drag over the text from the first of two sentences into the second."""
    page.locator(f".choice[data-q='{sentences[1]}']").scroll_into_view_if_needed()
    first, last = (page.locator(f".choice[data-q='{number}'] .text").bounding_box() for number in sentences)
    assert first is not None
    assert last is not None
    page.mouse.move(first["x"] + 30, first["y"] + 8)
    page.mouse.down()
    page.mouse.move(last["x"] + 60, last["y"] + 8, steps=4)
    page.mouse.up()


def in_clipboard(page: Page) -> str:
    """Copy what is selected with the keyboard, and return it on one line."""
    page.evaluate("navigator.clipboard.writeText('')")
    page.keyboard.press("Control+c")
    return " ".join(page.evaluate("navigator.clipboard.readText()").split())


def test_selected_text_chooses_its_sentences(visit: VisitFn, site: str) -> None:
    """Selecting text with the mouse chooses its sentences."""
    page = visit(QUERY_PATH)
    select(page, 3, 4)
    expect(page).to_have_url(re.compile("s=3&s=4$"))
    expect(page.locator(".choice input[name=s]:checked")).to_have_count(2)
    assert answered(site, query={"paper_id": ID}, sentences=[3, 4]) == shown(page)


@pytest.mark.parametrize("sentences", [(3, 3), (3, 4)])
def test_selected_text_is_copied(visit: VisitFn, sentences: tuple[int, int]) -> None:
    """Text that is selected with the mouse stays selected beside the new results, without what is no text."""
    page = visit(QUERY_PATH, permissions=["clipboard-read", "clipboard-write"])
    said = " ".join(PAPER["abstract"][number] for number in sorted(set(sentences)))
    for _ in range(2):  # the second time its sentences are chosen already
        select(page, *sentences)
        expect(page).to_have_url(re.compile(f"s={sentences[-1]}$"))
        copied = in_clipboard(page)
        assert copied
        assert copied in said
        assert (len(copied) > 100) == (sentences == (3, 4))


def test_a_selection_that_stays_holds_up_no_click(visit: VisitFn) -> None:
    """While text stays selected, sentences can be marked to be avoided one after another."""
    page = visit(QUERY_PATH)
    select(page, 2, 3)
    expect(page).to_have_url(re.compile("s=3$"))
    for number in (2, 4):
        page.locator(f".choice[data-q='{number}'] .away").click()
        expect(page).to_have_url(re.compile(f"u={number}"))
    expect(page).to_have_url(re.compile("u=2"))


def test_a_sentence_is_selected_whole_and_still_ticked(visit: VisitFn) -> None:
    """Three clicks select a sentence to copy; a click and the space bar tick it as ever."""
    page = visit(QUERY_PATH, permissions=["clipboard-read", "clipboard-write"])
    page.locator(".choice[data-q='3'] .text").click(click_count=3)
    expect(page).to_have_url(re.compile("s=3$"))
    assert PAPER["abstract"][3] == in_clipboard(page)
    choose(page, "#s4")
    expect(page.locator("#s4")).to_be_checked()
    page.locator("#s2").focus()
    page.keyboard.press("Space")
    expect(page.locator("#s2")).to_be_checked()


@pytest.mark.parametrize(
    ("avoided", "marked", "left"),
    [("u=4", [3, 4], []), ("u=0&u=4", [3, 4], [0]), ("unlike=method", [2, 3], [4])],
)
def test_selected_text_is_no_longer_avoided(
    visit: VisitFn, site: str, avoided: str, marked: list[int], left: list[int]
) -> None:
    """Selecting text chooses its sentences, also if they were marked to be avoided by number or by facet."""
    page = visit(f"{QUERY_PATH}&{avoided}")
    select(page, *marked)
    expect(page.locator(".choice input[name=s]:checked")).to_have_count(2)
    page.wait_for_url(f"**{''.join(f'&s={number}' for number in marked)}**")
    chosen: dict[str, object] = {"sentences": marked}
    if left:
        chosen["unlike"] = {"sentences": left}
    assert answered(site, query={"paper_id": ID}, **chosen) == shown(page)


def test_papers_are_filtered(visit: VisitFn) -> None:
    """A filter of years applies next to the chosen facet, and a link removes it."""
    page = visit(f"{QUERY_PATH}&facet=method")
    page.locator(".filters summary").click()
    page.get_by_label("From year").fill("2020")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".filters a.chip.on")).to_contain_text("2020")
    years = {PAPERS[key]["title"]: PAPERS[key]["year"] for key in PAPERS}
    assert shown(page)
    assert all(years[title] >= 2020 for title in shown(page))
    expect(page.locator("#query a.chip.method.on").first).to_be_visible()
    page.locator(".filters a.chip.on").click()
    expect(page.locator(".filters a.chip.on")).to_have_count(0)
    expect(page.locator("#query a.chip.method.on").first).to_be_visible()


def test_a_field_is_browsed(visit: VisitFn) -> None:
    """A field leads to its papers, one of them, and similar papers in the field."""
    page = visit("/")
    page.locator(".collection").get_by_role("link", name="Hydrology", exact=True).click()
    expect(page.locator("#results-title")).to_have_text("Papers 1 to 10 of 10")
    title = page.locator("article.card h3").nth(2).inner_text()
    page.locator("article.card h3 a").nth(2).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    expect(page.locator("#results-title")).to_have_text("The 9 closest papers")
    page.locator(".summary").get_by_role("link", name=title).click()
    expect(page.locator("#results-title")).to_have_text("Papers 1 to 10 of 10")


def test_papers_of_an_author_are_found(visit: VisitFn) -> None:
    """Part of an author's name filters, like a name in a result, and links remove the filter."""
    page = visit(f"{QUERY_PATH}&facet=method")
    name = page.locator("article.card .about a").first.inner_text()
    page.locator(".filters summary").click()
    page.get_by_label("Author").fill(name.split()[-1].upper())
    page.keyboard.press("Enter")
    expect(page.locator(".summary")).to_contain_text(f"by {name}")
    found = shown(page)
    assert found
    assert {name in PAPERS_BY_TITLE[title]["authors"] for title in found} == {True}
    page.locator(".summary").get_by_role("link", name=name).click()
    expect(page.locator("article.card")).to_have_count(10)
    page.locator("article.card .about").get_by_role("link", name=name).click()
    expect(page.locator(".summary")).to_contain_text(f"by {name}")
    assert found == shown(page)


def test_nothing_found_says_what_to_do(visit: VisitFn) -> None:
    """If filters leave no papers, the page says so and offers to remove them."""
    page = visit(f"{QUERY_PATH}&from=2100")
    expect(page.get_by_role("heading", name="No papers")).to_be_visible()
    page.locator(".empty a.chip").click()
    expect(page.locator("article.card")).to_have_count(10)


@pytest.mark.smoke
def test_one_goes_on_from_a_result(visit: VisitFn, site: str) -> None:
    """The links "More like this" and "Not like this" add removable seeds, which are never results."""
    page = visit(QUERY_PATH)
    more, less = shown(page)[0], shown(page)[4]
    by_title = {paper["title"]: key for key, paper in PAPERS.items()}
    page.locator("article.card").first.get_by_role("link", name="More like this").click()
    expect(page.locator(".seeds li.positive")).to_contain_text(more)
    page.locator("article.card", has_text=less).get_by_role("link", name="Not like this").click()
    expect(page.locator(".seeds li.negative")).to_contain_text(less)
    seeds = {
        "seeds": [{"paper_id": ID}, {"paper_id": by_title[more]}],
        "negatives": [{"paper_id": by_title[less]}],
    }
    assert answered(site, "/v1/recommendations", **seeds) == shown(page)
    assert not {more, less, PAPER["title"]} & set(shown(page))
    page.locator(".seeds li.negative .drop").click()
    expect(page.locator(".seeds li.negative")).to_have_count(0)


def test_a_further_paper_is_added_by_its_title(visit: VisitFn) -> None:
    """The box for further papers suggests titles, too."""
    page = visit(QUERY_PATH)
    other = next(paper for key, paper in PAPERS.items() if key != ID)
    page.locator("#like").fill(other["title"][:20])
    page.locator(".titles li").first.click()
    expect(page.locator(".seeds li.positive")).to_contain_text(other["title"])


@pytest.mark.parametrize("scripts", [True, False])
def test_a_further_paper_to_be_unlike_is_added(visit: VisitFn, *, scripts: bool) -> None:
    """The same box adds a paper to be unlike, by title with suggestions or by id without JavaScript."""
    page = visit(QUERY_PATH) if scripts else visit(QUERY_PATH, java_script_enabled=False)
    other = next(key for key in PAPERS if key != ID)
    page.get_by_label("Like or unlike").select_option("Unlike")
    if scripts:
        page.locator("#like").fill(PAPERS[other]["title"][:20])
        expect(page.get_by_role("option", name=PAPERS[other]["title"][:20])).to_be_visible()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
    else:
        page.locator("#like").fill(other)
        page.get_by_role("button", name="Add").click()
    expect(page.locator(".seeds li.negative")).to_contain_text(PAPERS[other]["title"])
    expect(page.locator(".seeds li.positive")).to_have_count(0)


def test_a_further_paper_counts_in_a_respect(visit: VisitFn, site: str) -> None:
    """The link "More like this" keeps the facet, and each further paper's facet can be changed."""
    page = visit(f"{QUERY_PATH}&facet=method")
    by_title = {paper["title"]: key for key, paper in PAPERS.items()}
    more = by_title[shown(page)[0]]
    page.locator("article.card").first.get_by_role("link", name="More like this").click()
    expect(page.locator(".seeds li select")).to_have_value("method")
    seeds = [{"paper_id": ID, "facet": "method"}, {"paper_id": more, "facet": "method"}]
    assert answered(site, "/v1/recommendations", seeds=seeds) == shown(page)
    page.locator("#in-1").focus()
    page.locator("#in-1").select_option("in result")
    expect(page.locator(".summary")).to_contain_text("in result")
    expect(page.locator("#in-1")).to_be_focused()
    seeds[1] = {"paper_id": more, "facet": "result"}
    assert answered(site, "/v1/recommendations", seeds=seeds) == shown(page)
    expect(page.locator("#in")).to_have_value("method")
    page.locator("#in").select_option("in background")
    page.locator("#like").fill("demo:p01-m00")
    page.get_by_role("button", name="Add").click()
    expect(page.locator(".seeds li")).to_have_count(2)
    seeds.append({"paper_id": "demo:p01-m00", "facet": "background"})
    assert answered(site, "/v1/recommendations", seeds=seeds) == shown(page)


def test_a_respect_is_chosen_without_scripts(visit: VisitFn, site: str) -> None:
    """Without JavaScript, the form sends each further paper with its facet."""
    page = visit(f"{QUERY_PATH}&facet=method&like=demo:p01-m00", java_script_enabled=False)
    page.locator("#in-1").select_option("in result")
    page.get_by_role("button", name="Add").click()
    expect(page.locator("#in-1")).to_have_value("result")
    seeds = [{"paper_id": ID, "facet": "method"}, {"paper_id": "demo:p01-m00", "facet": "result"}]
    assert answered(site, "/v1/recommendations", seeds=seeds) == shown(page)


def test_parts_of_the_query_are_taken_away(visit: VisitFn) -> None:
    """Each part in the summary is a link that removes it and keeps the keyboard focus in the summary."""
    page = visit(f"{QUERY_PATH}&facet=method&unlike=background&from=2015&like=demo:p01-m00&in=method")
    expect(page.locator(".summary .part")).to_have_count(5)
    page.locator(".summary").get_by_role("link", name="2015 or later").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".summary .part")).to_have_count(4)
    expect(page.locator("#summary")).to_be_focused()
    page.locator(".summary").get_by_role("link", name="background").click()
    expect(page.locator(".summary .part")).to_have_count(3)
    assert page.url.endswith(f"{QUERY_PATH.replace(':', '%3A')}&facet=method&like=demo%3Ap01-m00&in=method")
    page.locator(".summary").get_by_role("link", name=PAPER["title"]).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Papers similar to these")
    expect(page.locator("article.card")).to_have_count(10)


def test_a_title_goes_on_with_the_query(visit: VisitFn) -> None:
    """The title of a result starts from it with the same facet and filters."""
    page = visit(f"{QUERY_PATH}&facet=method&from=2015")
    title = shown(page)[1]
    page.locator("article.card").nth(1).locator("h3 a").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    expect(page.locator(".summary")).to_contain_text("2015 or later")
    expect(page.locator("#query a.chip.method.on").first).to_be_visible()


def test_the_focus_stays_where_one_was(visit: VisitFn) -> None:
    """After a change the focus stays on the same element, or moves to its group."""
    page = visit(f"{QUERY_PATH}&like=demo:p01-m00")
    page.locator("#query .chips a.chip").nth(1).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#query .chips a.chip").nth(1)).to_have_attribute("aria-current", "true")
    expect(page.locator("#query .chips a.chip").nth(1)).to_be_focused()
    page.locator(".seeds .drop").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".seeds .drop")).to_have_count(0)
    expect(page.get_by_role("heading", name="Further papers")).to_be_focused()
    page.locator(".filters summary").click()
    page.get_by_label("From year").fill("2020")
    page.keyboard.press("Enter")
    expect(page.locator(".filters a.chip.on")).to_be_visible()
    expect(page.get_by_label("From year")).to_be_focused()
    page.locator(".filters a.chip.on").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".filters a.chip.on")).to_have_count(0)
    expect(page.locator(".filters summary")).to_be_focused()


def test_what_is_being_typed_is_not_lost(visit: VisitFn) -> None:
    """Typed text that was not submitted survives an answer; submitted text is cleared."""
    page = visit(QUERY_PATH)
    page.locator("#like").fill("begun")
    choose(page, "#s3")
    expect(page.locator("#like")).to_have_value("begun")
    assert "begun" not in page.url
    page.locator("#like").fill("")
    page.locator(".filters summary").click()
    page.get_by_label("Venue").fill("Akin demo corpus (invented)")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".filters a.chip.on")).to_contain_text("Akin demo")
    expect(page.get_by_label("Venue")).to_have_value("")
    page.get_by_label("To year").fill("2022")
    page.locator(".chips a.chip").nth(1).click()
    expect(page.locator("#s3")).not_to_be_checked()
    expect(page.get_by_label("To year")).to_have_value("2022")


def test_a_paper_to_avoid_stays_one_while_its_title_is_typed(visit: VisitFn) -> None:
    """What is chosen for a paper that is not added yet survives an answer, until the paper is added."""
    page = visit(f"{QUERY_PATH}&facet=method")
    page.locator("#as").select_option("Unlike")
    page.locator("#like").fill("demo:p01-m00")
    page.locator("label:has(#s3)").click()
    page.wait_for_url("**s=**")
    page.locator("#query a.chip").first.click()
    page.wait_for_url(lambda address: "s=" not in address)
    expect(page.locator("#as")).to_have_value("not")
    expect(page.locator("#like")).to_have_value("demo:p01-m00")
    page.locator("#add").click()
    expect(page.locator(".seeds li.negative")).to_have_count(1)
    expect(page.locator("#as")).to_have_value("like")


def test_a_text_too_long_for_an_address_is_not_sent(visit: VisitFn) -> None:
    """A text too long for an address is refused, also by a proxy, without "Try again"."""
    page = visit("/")
    page.locator("#paste summary").click()
    box = page.locator("#paste").get_by_label("Abstract")
    box.evaluate("box => { box.value = '\u4e2d'.repeat(9000); }")
    page.locator("#paste").get_by_role("button").click()
    expect(page.get_by_role("alert")).to_contain_text("too long for a link")
    page.route(
        "**/?*", lambda route: route.fulfill(status=414, content_type="text/html", body="<h1>414</h1>")
    )
    box.fill("A short one.")
    page.locator("#paste").get_by_role("button").click()
    expect(page.get_by_role("alert")).to_contain_text("too long for a link")
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)


@pytest.mark.parametrize(
    ("address", "status", "words"),
    [
        ("/?paper=nowhere", 404, "not in this collection"),
        (f"{QUERY_PATH}&s=x", 422, "whole number"),
        (f"{QUERY_PATH}&s=99", 422, "sentence"),
        (f"{QUERY_PATH}&facet=smell", 422, "may be one of"),
        (f"{QUERY_PATH}&cursor=abc", 422, "first page"),
        (f"{QUERY_PATH}&n=1000", 422, "100"),
        ("/?title=Alone", 422, "abstract"),
        ("/nowhere", 404, "There is nothing at this address"),
    ],
)
def test_what_cannot_be_answered_is_said(site: str, address: str, status: int, words: str) -> None:
    """A bad address gets the right status and a sentence with the reason."""
    answer = httpx.get(f"{site}{address}", headers={"Accept": "text/html"})
    assert status == answer.status_code
    assert words in answer.text


def test_a_service_that_is_away_leaves_the_page_as_it_is(visit: VisitFn) -> None:
    """If the service does not answer, the results stay, with an error and "Try again"."""
    page = visit(QUERY_PATH)
    page.route("**/?*", lambda route: route.abort())
    page.locator("#s3").check()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    expect(page.locator("article.card")).to_have_count(10)
    page.unroute("**/?*")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("#s3")).to_be_checked()


def test_a_login_that_expired_is_not_taken_for_an_answer(visit: VisitFn) -> None:
    """If a proxy leads to its login page, so does a search, and nothing counts as saved."""
    page = visit(QUERY_PATH)

    def log_in(route: Route) -> None:
        if route.request.is_navigation_request():
            route.fulfill(body="<h1>Log in</h1>", content_type="text/html")
        else:
            route.fulfill(status=302, headers={"Location": "/?paper=demo:p01-m00"})

    page.route("**/v1/queries", log_in)
    page.route("**/?*s=3*", log_in)
    page.get_by_text("Save this search").click()
    page.get_by_label("Name").fill("Mine")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".keep .said")).to_contain_text("logged out")
    page.locator("#s3").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_waiting_is_shown(visit: VisitFn) -> None:
    """While an answer is loading the page stays readable, and only the last query is answered."""
    page = visit(QUERY_PATH)
    held = held_requests(page, "**/?*")
    page.locator("label:has(#s3)").click()
    expect(page.locator(".loading")).to_be_visible()
    expect(page.locator("#results")).to_have_attribute("aria-busy", "true")
    page.locator("label:has(#s4)").click()
    while len(held) < 2:
        page.wait_for_timeout(20)
    held[1].continue_()
    expect(page.locator(".loading")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"s=3&s=4$"))
    expect(page.locator(".choice input[name=s]:checked")).to_have_count(2)


def test_a_year_of_the_timeline_filters(visit: VisitFn) -> None:
    """A dot of the timeline leads to its card, and a year filters by it, without a new page."""
    page = visit(QUERY_PATH)
    page.locator(".timeline a.dot[href='#result-7']").click()
    expect(page.locator("#result-7")).to_be_in_viewport()
    year = page.locator(".timeline a.year").first
    from_to = re.search(r"from=(\d+)&to=(\d+)", year.get_attribute("href") or "")
    assert from_to is not None
    page.evaluate("document.same = true")
    year.click()
    expect(page.locator(".filters a.chip.on")).to_be_visible()
    assert page.evaluate("document.same")
    first, last = map(int, from_to.groups())
    years = {paper["title"]: paper["year"] for paper in PAPERS.values()}
    assert {first <= years[title] <= last for title in shown(page)} == {True}
