"""Tests of the page from end to end, as somebody with a library uses it.

They use the narrowest window, where things are cut or overlap first; `make trials` also uses the other sizes,
and checks the colours of both schemes.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from models.encoder import Encoder
from tests.support.builds import DEMO_CORPUS, build_quietly, write_corpus
from tests.support.servers.browser import VisitFn, barriers, served_collection

PAPERS = [json.loads(line) for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]
SEED = next(paper for paper in PAPERS if paper["id"] == "demo:p03-m07")
OTHERS = [paper for paper in PAPERS if paper["id"] in {"demo:p03-m01", "demo:p05-m02"}]
SIZES: dict[str, dict[str, dict[str, int]]] = {
    "desktop": {"viewport": {"width": 1280, "height": 800}},
    "narrow": {"viewport": {"width": 390, "height": 844}},
    "narrowest": {"viewport": {"width": 360, "height": 740}},
}
LONG = "On " + "very " * 80 + "long titles"
WORD = "Donaudampfschifffahrt" * 20
METHOD = "/?paper=demo%3Ap03-m07&facet=method"


def looked_at(page: Page) -> None:
    """Check that the page is not wider than the window, and in the trials that it is accessible.

    The most used pages are checked by the tests of each (``test_nobody_is_kept_out``).
    """
    wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert 0 == wider, f"{page.url} is {wider} pixels wider than the window"
    width = page.evaluate("innerWidth")
    if width == SIZES["narrowest"]["viewport"]["width"]:
        return
    if width < 500:  # the desktop checks the colours
        assert [] == barriers(page, of="layout")
        return
    assert [] == barriers(page)
    page.emulate_media(color_scheme="dark")
    assert [] == barriers(page, of="colours")
    page.emulate_media(color_scheme="light")


def in_sight(place: Locator) -> bool:
    """Return whether the middle of an element is in the window and not covered."""
    return bool(
        place.evaluate(
            """each => {
                const at = each.getBoundingClientRect();
                const [x, y] = [at.left + at.width / 2, at.top + at.height / 2];
                return y > 0 && y < innerHeight && each.contains(document.elementFromPoint(x, y));
            }"""
        )
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, minilm: Encoder) -> Iterator[str]:
    """Yield the address of a service over a third of the demo corpus with the default encoder."""
    folder = tmp_path_factory.mktemp("demo")
    some = [paper for paper in PAPERS if paper["id"].startswith(("demo:p00", "demo:p03", "demo:p05"))]
    build_quietly(write_corpus(folder / "papers.jsonl", some), folder / "data", minilm)
    with served_collection(folder / "data") as address:
        yield address


_IN_SIZES = ["narrowest", *(pytest.param(size, marks=pytest.mark.trial) for size in ("desktop", "narrow"))]


@pytest.fixture(params=_IN_SIZES)
def tour(request: pytest.FixtureRequest, visit_at: VisitFn, demo: str) -> Page:
    """Return the start page in one of the sizes."""
    return visit_at(demo, "/", **SIZES[request.param])


def test_from_a_library_to_a_search(tour: Page, tmp_path: Path) -> None:
    """Papers of a file are matched and used as seeds with a facet, and missing ones are listed."""
    looked_at(tour)
    entries = [f"@article{{k{n}, title={{{paper['title']}}}}}" for n, paper in enumerate(OTHERS)]
    library = tmp_path / "my.bib"
    library.write_text("\n".join([*entries, "@article{x, title={Of Ships Unknown}}"]), encoding="utf-8")
    tour.get_by_text("Start from your library").click()
    tour.get_by_label("A file of yours").set_input_files(library)
    tour.get_by_role("button", name="Match these papers").click()
    expect(tour.get_by_role("heading", level=1)).to_have_text("2 of 3 papers are in this collection")
    expect(tour.get_by_role("link", name="Of Ships Unknown")).to_be_visible()
    looked_at(tour)
    tour.get_by_label("similar to the ticked ones in").select_option("method")
    tour.get_by_role("button", name="Find similar papers").click()
    for paper in OTHERS:
        expect(tour.locator("#summary")).to_contain_text(f"{paper['title'][:30]}")
    expect(tour.locator("#summary")).to_contain_text("in method")
    looked_at(tour)


def test_every_seed_has_its_facet(tour: Page) -> None:
    """The paper, further papers and a text keep the facet, and the summary can remove parts."""
    tour.goto(METHOD)
    summary = tour.locator("#summary")
    expect(summary).to_contain_text("similar to")
    tour.locator(".card .go a", has_text="More like this").first.click()
    seeds = tour.locator(".seeds li:has(.drop)")
    expect(seeds).to_have_count(1)
    add = tour.get_by_label("Add a paper, by title or id")
    add.fill(OTHERS[1]["title"])  # all at once, so that no later list of titles replaces the first
    option = tour.locator(".seeds .titles li").first
    expect(option).to_be_visible()
    shown = tour.locator(".seeds .titles")
    box = shown.bounding_box()
    size = tour.viewport_size
    assert box is not None
    assert size is not None
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= size["height"]
    assert in_sight(option)
    title, about = (option.locator(part).bounding_box() for part in (".title", ".about"))
    assert title is not None
    assert about is not None
    assert title["y"] + title["height"] <= about["y"] + 1
    option.click()
    expect(seeds).to_have_count(2)
    assert ["method", "method"] == [seeds.nth(n).locator("select").input_value() for n in (0, 1)]
    looked_at(tour)
    parts = summary.locator(".chip").count()
    summary.locator(".chip").last.click()
    expect(summary.locator(".chip")).to_have_count(parts - 1)
    started = tour.locator(".card h3 a").first
    title = (started.text_content() or "").strip()
    started.click()
    expect(tour.get_by_role("heading", level=1)).to_have_text(title)
    expect(summary).to_contain_text("method")
    expect(summary.locator(".chip")).to_have_count(parts - 1)
    tour.goto("/?text=We+train+a+graph+network&facet=method")
    expect(summary).to_contain_text("in their")
    expect(tour.locator("#facet-method")).to_have_attribute("aria-current", "true")
    looked_at(tour)


def test_that_nothing_matches_is_said_first(tour: Page) -> None:
    """Even on a narrow screen, the note on weak matches is in view above the choices."""
    tour.goto("/?text=zyx+qwv+plm+okn#results")
    notice = tour.locator(".notice", has_text="good match")
    expect(notice).to_be_in_viewport(ratio=1)
    said, below = notice.bounding_box(), tour.get_by_role("link", name="Cards").bounding_box()
    assert said
    assert below
    assert said["y"] + said["height"] <= below["y"]


def test_an_answer_says_how_strong_it_is(tour: Page) -> None:
    """Each result has a strength, weak results get a note, and an unknown DOI is an error."""
    tour.goto(METHOD)
    labels = tour.locator(".card .strength").all_inner_texts()
    assert 10 == len(labels)
    assert {*labels} <= {"strong match", "fair match", "weak match"}
    tour.goto("/?text=zyx+qwv+plm+okn")
    expect(tour.locator(".results-head p.notice", has_text="good match")).to_be_visible()
    looked_at(tour)
    tour.goto("/?text=10.1234%2Fnowhere")
    expect(tour.get_by_role("alert")).to_contain_text("not in this collection")
    looked_at(tour)


def test_results_are_skimmed_and_taken_along(tour: Page) -> None:
    """Cards have few marks, pages go back, tables sort by year and open, and lists are exported."""
    tour.goto(f"{METHOD}&n=10")
    for card in tour.locator(".card").all():
        assert 0 < card.locator("[class*=' w']").count() < card.locator(".sentence").count()
    looked_at(tour)
    tour.get_by_role("link", name="Next papers").click()
    expect(tour.locator("#results-title")).to_contain_text("Papers 11 to 20")
    tour.get_by_role("link", name="Previous papers").click()
    expect(tour.locator("#results-title")).to_contain_text("10 closest")
    by_year = tour.get_by_role("link", name=re.compile("The best [0-9]+, newest first"))
    by_year.click()
    expect(by_year).to_have_attribute("aria-current", "true")
    tour.get_by_role("link", name="Table", exact=True).click()
    rows = tour.locator(".entry")
    expect(rows).to_have_count(10)
    years = [int(year) for year in rows.locator(".year").all_inner_texts()]
    assert sorted(years, reverse=True) == years
    looked_at(tour)
    rows.first.locator(".expand").click()
    expect(tour.locator(".whole .card")).to_be_visible()
    looked_at(tour)
    tour.get_by_text("Export", exact=True).click()
    with tour.expect_download() as loading:
        tour.locator(".save p", has_text="newest first").get_by_role("link", name="CSV").click()
    lines = loading.value.path().read_text(encoding="utf-8").count("demo:")
    assert lines > 10
    with tour.expect_download() as loading:
        tour.get_by_role("link", name="Markdown").first.click()
    table = loading.value.path().read_text(encoding="utf-8").splitlines()
    assert ["| Paper | Problem | Method | Result |", 12] == [table[0], len(table)]
    looked_at(tour)


def test_a_collection_is_browsed(tour: Page) -> None:
    """A field leads to its papers, and part of an author's name filters."""
    tour.locator(".names a").first.click()
    expect(tour.locator("#results-title")).to_contain_text("Papers 1 to 10 of")
    looked_at(tour)
    if not tour.locator("#author").is_visible():
        tour.get_by_text("Filters").click()
    name = PAPERS[0]["authors"][0]
    tour.goto("/?from=1900")
    tour.locator("#author").fill(name.split()[-1].lower())
    tour.get_by_role("button", name="Apply").click()
    expect(tour.locator("#summary")).to_contain_text(name)
    expect(tour.get_by_role("heading", level=3).first).to_be_visible()
    looked_at(tour)


def test_a_search_is_kept(tour: Page) -> None:
    """A search with likes and dislikes is saved, listed, opened and deleted."""
    tour.goto(f"{METHOD}&like={OTHERS[0]['id']}&not={OTHERS[1]['id']}")
    chips = tour.locator("#summary .chip").all_text_contents()
    tour.get_by_text("Save this search").click()
    tour.get_by_label("Name").fill(f"Causes and {LONG}"[:100].strip())
    tour.get_by_role("button", name="Save", exact=True).click()
    expect(tour.locator(".keep .said")).to_have_text("Saved.")
    looked_at(tour)
    tour.get_by_role("link", name="Saved searches").click()
    looked_at(tour)
    expect(tour.get_by_text("Nothing was added since")).to_be_visible()
    tour.locator(".kept h2 a").click()
    expect(tour.get_by_role("heading", name="No new papers")).to_be_visible()
    looked_at(tour)
    tour.get_by_role("link", name="Open the search").click()
    expect(tour.locator("#summary .chip")).to_have_text(chips)
    tour.go_back()
    tour.once("dialog", lambda dialog: dialog.accept())
    tour.get_by_role("button", name="Delete").click()
    expect(tour.get_by_text("Nothing is saved yet")).to_be_visible()
    looked_at(tour)


def test_a_list_of_titles_is_searched_with(tour: Page) -> None:
    """Lines without a match get the nearest title, and results lead to a search."""
    tour.goto("/batch")
    lines = [SEED["title"], f"{OTHERS[0]['title']}s", "10.1234/nowhere", OTHERS[1]["id"]]
    tour.get_by_label("Papers", exact=True).fill("\n".join(lines))
    expect(tour.locator("#matched .count")).to_contain_text("2 of 4 lines match")
    expect(tour.locator(".lost li").nth(1)).to_contain_text("no paper here has this DOI")
    looked_at(tour)
    tour.get_by_role("button", name=OTHERS[0]["title"]).click()
    tour.get_by_role("button", name="Start with 3 papers").click()
    expect(tour.get_by_role("heading", name="Results 1 to 3 of 3")).to_be_visible()
    looked_at(tour)
    tour.locator(".found h3 a").first.click()
    expect(tour.get_by_role("heading", level=1)).to_have_text(SEED["title"])


def test_pages_beside_the_search(tour: Page) -> None:
    """Saved searches, the batch, the library, comparisons and unknown addresses have pages."""
    for path, title in (
        ("/saved", "Saved searches"),
        ("/batch", "Batch search"),
        ("/library", "Start from your library"),
        (f"/compare?a={SEED['id']}&b={OTHERS[0]['id']}", "Two papers side by side"),
    ):
        tour.goto(path)
        expect(tour.get_by_role("heading", level=1)).to_have_text(title)
        looked_at(tour)
    answer = tour.goto("/no-such-page", wait_until="load")
    assert answer is not None
    assert 404 == answer.status
    expect(tour.get_by_role("link", name="Start again")).to_be_visible()
    looked_at(tour)
    tour.goto("/docs")
    expect(tour.get_by_role("link", name="Akin: find papers on the page")).to_be_visible()


@pytest.fixture(scope="module")
def long_site(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Iterator[str]:
    """Yield the address of a service over papers with titles and names of hundreds of letters."""
    folder = tmp_path_factory.mktemp("long")
    names = [LONG, WORD, *(f"{number} {LONG if number % 2 else WORD}" for number in range(6))]
    papers: list[dict[str, Any]] = [
        {
            "id": f"p{number}",
            "title": title,
            "abstract": ["We sort ropes.", "A rope is long.", "It works."],
            "year": 2000 + number,
            "authors": [WORD],
            "venue": LONG,
            "fields": [WORD],
        }
        for number, title in enumerate(names)
    ]
    build_quietly(write_corpus(folder / "papers.jsonl", papers), folder / "data", hashing)
    with served_collection(folder / "data") as address:
        yield address


@pytest.mark.parametrize("size", _IN_SIZES)
def test_long_titles_are_cut(visit_at: VisitFn, long_site: str, size: str) -> None:
    """Titles are cut to three lines, with all of a title in its tooltip and on focus."""
    page = visit_at(long_site, "/", **SIZES[size])
    for path in (
        "/",
        "/?paper=p0",
        "/?paper=p0&like=p1&in=method&not=p2&open=1",
        "/?paper=p0&view=table&open=2",
        "/?from=1900",
        "/compare?a=p0&b=p1",
        f"/?text={LONG.replace(' ', '+')[:200]}",
    ):
        page.goto(path)
        wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert 0 == wider, f"{path} is {wider} pixels wider than the window"
        for title in page.locator("a.long").all():
            if title.is_visible():
                height = title.evaluate(
                    "each => each.clientHeight / parseFloat(getComputedStyle(each).lineHeight)"
                )
                assert height < 3.6, f"{path}: {height} lines"
                assert (title.text_content() or "").strip() in (title.get_attribute("title") or "")
    page.goto("/?paper=p0")
    title = page.locator(".card h3 a").first
    cut = title.evaluate("each => each.clientHeight")
    page.keyboard.press("Tab")
    title.focus()
    assert title.evaluate("each => each.clientHeight") > cut
