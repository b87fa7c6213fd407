"""Tests of the batch page in a browser: matching lines, progress, results and their files."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Page as Tab
from playwright.sync_api import Route, expect

from indexer.files.data_folder import CATALOG_FILE
from models.encoder import Encoder
from models.types import Facet
from service.access.api_keys import Keys, Scope
from service.app import create_app
from service.batches.job import ChunkContent, NewJob
from service.batches.jobs import Jobs
from service.settings import Settings
from service.web.address.page_query import PageQuery
from service.web.library import MAX_LIBRARY_BYTES, MAX_LISTED
from tests.support.builds import DEMO_CORPUS, build_quietly, write_corpus
from tests.support.clients import client_of
from tests.support.examples.pages import Page, query_of
from tests.support.servers.browser import VisitFn, barriers
from tests.support.servers.patience import soon

PAPERS = [json.loads(line) for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]
IDS, TITLES = ([str(paper[part]) for paper in PAPERS] for part in ("id", "title"))

MINE = [{"name": "a", "papers": [IDS[1]]}]


def start(page: Tab, ids: list[str]) -> None:
    """Fill the form and send it before its lines are looked for, as they are a while after typing."""
    page.get_by_label("Papers", exact=True).evaluate("(box, text) => { box.value = text; }", "\n".join(ids))
    page.get_by_label("Results per paper").fill("3")
    page.get_by_role("button", name="Start").click()


SEEDS = [*IDS[:19], "no such paper"]


@pytest.fixture
def batch(site: str) -> str:
    """Return the address of the view of a batch of twenty papers, of which one is unknown."""
    started = httpx.post(f"{site}/v1/batches", json={"seeds": SEEDS, "limit": 3}).raise_for_status()
    return f"/batch?id={started.json()['id']}"


def test_a_batch_is_started_and_watched(visit: VisitFn) -> None:
    """Titles in any case and ids match papers, each once, and lines without a match are listed first."""
    page = visit("/batch")
    start(page, [*SEEDS, "", f"  {TITLES[0].upper()}.", TITLES[20]])
    expect(page.get_by_role("alert")).to_contain_text("One line matches no paper")
    expect(page.locator("#matched .count")).to_have_text(
        "21 of 22 lines match a paper; 1 of them is a repeat."
    )
    expect(page.locator(".lost li")).to_contain_text("no paper here has this title or id")
    assert [] == barriers(page)
    page.get_by_role("button", name="Start with 20 papers").click()
    expect(page.get_by_role("heading", name="Done", exact=True)).to_be_visible()
    expect(page.locator("#done")).to_have_text("20 of 20 papers")
    expect(page.locator("#problems")).to_be_hidden()
    assert [] == barriers(page)
    page.go_back()
    expect(page.get_by_label("Papers", exact=True)).to_be_visible()


def test_lines_are_matched_while_they_are_typed(visit: VisitFn) -> None:
    """A line without a match gets the nearest titles, and choosing one replaces the line."""
    page = visit("/batch")
    typed = page.get_by_label("Papers", exact=True)
    typed.fill(f"{TITLES[3]}\n{TITLES[4][:-4]}xy\n")
    expect(page.locator("#matched .count")).to_contain_text("1 of 2 lines match")
    expect(page.locator(".lost li")).to_contain_text("Line 2")
    page.get_by_role("button", name=TITLES[4]).click()
    expect(page.locator("#matched .count")).to_have_text("2 of 2 lines match a paper.")
    assert f"{TITLES[3]}\n{IDS[4]}\n" == typed.input_value()
    page.get_by_text("Matched: 2 papers").click()
    expect(page.locator(".known li")).to_have_text([re.compile(re.escape(TITLES[n])) for n in (3, 4)])
    typed.fill("")
    expect(page.locator("#matched .count")).to_have_count(0)


def test_results_are_read_on_the_page(visit: VisitFn, batch: str) -> None:
    """Each query paper and each result links to a search, and a query without results says why."""
    page = visit(batch)
    expect(page.get_by_role("heading", name="Results 1 to 20 of 20")).to_be_visible()
    found = page.locator(".found > li")
    assert 20 == found.count()
    assert [3] * 19 + [0] == [found.nth(number).locator("ol > li").count() for number in range(20)]
    expect(found.nth(19)).to_contain_text("no such paper")
    expect(found.nth(19)).to_contain_text("No paper of this collection")
    assert [] == barriers(page)
    nearest = found.nth(4).locator("ol a").first.text_content()
    found.nth(4).get_by_role("heading").get_by_role("link").click()
    expect(page.get_by_role("heading", name=TITLES[4], level=1)).to_be_visible()
    expect(page.locator(".card h3").first).to_have_text(nearest or "")
    page.go_back()
    page.locator(".found > li").nth(4).locator("ol a").first.click()
    expect(page.get_by_role("heading", name=nearest or "", level=1)).to_be_visible()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"seeds": [IDS[4]], "facet": "method", "filters": {"year_from": 2015, "venues": ["A", "B"]}},
            PageQuery(paper=IDS[4], facets=(Facet.METHOD,), year_from=2015, venues=("A", "B")),
        ),
        (
            {"queries": [{"query": {"paper_id": IDS[4]}, "unlike": {"facet": "background"}, "limit": 3}]},
            PageQuery(paper=IDS[4], unlike_facets=(Facet.BACKGROUND,), limit=3),
        ),
        (
            {"recommendations": [{"name": "a", "seeds": [IDS[4]], "words": 0}]},
            PageQuery(paper=IDS[4], words=0.0),
        ),
        ({"seeds": [IDS[4]], "scorer": "single"}, None),
        ({"seeds": [IDS[4]], "filters": {"exclude_ids": [IDS[5]]}}, None),
        ({"recommendations": [{"name": "a", "seeds": [IDS[4]], "negatives": [IDS[5]]}]}, None),
        ({"match": {"submissions": [{"paper_id": IDS[4]}], "profiles": MINE}}, None),
    ],
)
def test_a_result_leads_to_the_same_search(
    hashed_data: Path, tmp_path: Path, body: dict[str, Any], expected: PageQuery | None
) -> None:
    """A result links to the same search if the page can ask it, and otherwise has no link."""
    with client_of(Path(copytree(hashed_data, tmp_path / "data")), device="cpu") as client:
        path = client.post("/v1/batches", json=body).headers["Location"]
        soon(lambda: client.get(path).json()["state"] == "done")
        page = Page(client.get(f"{path.removeprefix('/v1').replace('batches', 'batch')}/papers").text)
    assert "Results 1 to 1 of 1" in page.text
    links = [query_of(each["href"]) for each in page.all("a", class_="long") if "paper=" in each["href"]]
    # The links of the found papers start from those papers.
    assert [expected] == links[:1] if expected else PageQuery(paper=IDS[4]) not in links


def test_a_page_after_the_last_is_the_last(hashed_data: Path, tmp_path: Path) -> None:
    """Whatever number the address of a batch's results gives, it shows results."""
    with client_of(Path(copytree(hashed_data, tmp_path / "data")), device="cpu") as client:
        path = client.post("/v1/batches", json={"seeds": IDS[:21], "limit": 1}).headers["Location"]
        soon(lambda: client.get(path).json()["state"] == "done")
        shown = f"{path.removeprefix('/v1').replace('batches', 'batch')}/papers"
        assert "Results 21 to 21 of 21" in client.get(f"{shown}?start=500").text
        page = Page(client.get(f"{shown}?start=40").text)
        assert [f"{shown}?start=0"] == [each["href"] for each in page.all("a", rel="prev")]


def test_its_files_are_downloaded(visit: VisitFn, batch: str, tmp_path: Path) -> None:
    """The CSV has a header and three rows per paper, and the NDJSON a line per paper."""
    page = visit(batch)
    expect(page.locator("#done")).to_have_text("20 of 20 papers")
    lines = {}
    for name in ("CSV", "NDJSON"):
        with page.expect_download() as loading:
            page.get_by_role("link", name=f"Download {name}").click()
        loading.value.save_as(tmp_path / name)
        assert f"akin-batch.{name.lower()}" == loading.value.suggested_filename
        lines[name] = (tmp_path / name).read_text(encoding="utf-8").splitlines()
    assert 1 + 19 * 3 + 1 == len(lines["CSV"])
    assert SEEDS == [json.loads(line)["paper_id"] for line in lines["NDJSON"]]


def test_it_survives_a_reload_and_is_removed(visit: VisitFn, batch: str) -> None:
    """Reloading shows the batch again, and after removal says that there is no such batch."""
    page = visit(batch)
    page.reload()
    expect(page.locator("#done")).to_have_text("20 of 20 papers")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_role("heading", name="Removed")).to_be_visible()
    expect(page.locator("#status")).to_have_text("Removed")
    expect(page.locator("#watch")).to_be_focused()
    for gone in ("#bar", "#csv", "#ndjson", "#remove"):
        expect(page.locator(gone)).to_be_hidden()
    page.reload()
    expect(page.get_by_role("heading", name="No such batch")).to_be_visible()
    page.get_by_role("link", name="Start another").click()
    expect(page.get_by_label("Papers", exact=True)).to_be_visible()


def test_progress_is_shown_and_a_batch_cancelled(visit_at: VisitFn, site: str) -> None:
    """The view of a running batch shows rate and time left, and can cancel the batch."""
    page = visit_at(site, "/batch")
    page.clock.install()
    states = iter([(0, "queued"), (40, "running"), (60, "running")])
    shown = {"id": "x", "problems": 0, "queries": 100, "finished_at": None, "error": None}

    def answer(route: Route) -> None:
        if route.request.method == "DELETE":
            route.fulfill(status=204)
            return
        n_done, state = next(states, (60, "running"))
        route.fulfill(json={**shown, "done": n_done, "state": state})

    page.route("**/v1/batches/x", answer)
    page.goto("/batch?id=x")
    expect(page.get_by_role("heading", name="Waiting to be started")).to_be_visible()
    for n_done in (40, 60):
        page.clock.run_for(1000)
        expect(page.locator("#done")).to_have_text(f"{n_done} of 100 papers")
    expect(page.locator("#rate")).to_contain_text(re.compile("a second · about [12] s left"))
    assert 60 == page.locator("progress").evaluate("bar => bar.value")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", name="Removed")).to_be_visible()


def test_earlier_batches_are_found_again(visit: VisitFn, batch: str) -> None:
    """The page lists the batches started before, the last one first, and each leads to its results."""
    page = visit("/batch")
    latest = page.locator("#earlier li").first
    expect(latest).to_contain_text("20 papers")
    expect(latest.get_by_role("link")).to_have_attribute("href", batch)
    latest.get_by_role("link").click()
    expect(page.locator("#papers-title")).to_contain_text("of 20")


def test_earlier_batches_come_in_pages_and_to_their_owner_alone(hashed_data: Path, tmp_path: Path) -> None:
    """Twenty are on a page, with a link to older ones; another key sees none of them."""
    data = Path(copytree(hashed_data, tmp_path / "data"))
    with Keys.open(data / CATALOG_FILE) as keys:
        me, you = (keys.create(name, scope=Scope.READ, expires_days=1) for name in ("me", "you"))
    mine, other = ({"x-api-key": each.token} for each in (me, you))
    jobs = Jobs.open(data / CATALOG_FILE)
    ids = [
        jobs.add(
            NewJob(me.key.id, None, f"hash {n}", "000001", b"", [ChunkContent(1, b"")]),
            most=99,
            most_of_owner=99,
        ).id
        for n in range(22)
    ]
    jobs.close()
    with client_of(data, device="cpu") as client:
        first = client.get("/batch/earlier", headers=mine).text
        older = re.search(r'rel="next" href="([^"]+)"', first)
        assert older is not None
        second = client.get(older[1], headers=mine).text
        links = [re.findall(r'href="/batch\?id=([^"]+)"', text) for text in (first, second)]
        assert [20, 2] == [len(each) for each in links]
        assert sorted(ids) == sorted([*links[0], *links[1]])
        assert "No earlier batches" in client.get("/batch/earlier", headers=other).text
        assert 401 == client.get("/batch/earlier").status_code


def test_a_file_is_read_into_the_list(visit: VisitFn, tmp_path: Path) -> None:
    """A file of a reference manager is matched as if its text was pasted."""
    file = tmp_path / "my.bib"
    file.write_text(f"@article{{a, title = {{{TITLES[3]}}}}}\n@article{{b, title = {{{TITLES[4]}}}}}\n")
    page = visit("/batch")
    page.get_by_label("Or a file of yours").set_input_files(file)
    expect(page.locator("#matched .count")).to_contain_text("2 of 2 lines match")
    expect(page.get_by_role("button", name="Start with 2 papers")).to_be_enabled()


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252"])
def test_a_file_that_is_not_utf_8_is_read(visit: VisitFn, tmp_path: Path, encoding: str) -> None:
    """A file of a spreadsheet (UTF-16) or of an old program (Windows-1252) is read as on the library page."""
    file = tmp_path / "list.txt"
    file.write_bytes(f"{TITLES[3]}\nCafé\n".encode(encoding))
    page = visit("/batch")
    page.get_by_label("Or a file of yours").set_input_files(file)
    expect(page.locator("#matched .count")).to_contain_text("1 of 2 lines match")
    expect(page.locator("#list")).to_have_value(f"{TITLES[3]}\nCafé\n")


def test_results_that_come_late_are_shown(visit_at: VisitFn, site: str) -> None:
    """Results after the first ones get a link to them, also if the page of the results failed once."""
    page = visit_at(site, "/batch")
    shown = {"id": "x", "problems": 0, "queries": 22, "error": None}
    states = iter([(20, "running", None), (22, "done", "2026-01-01T00:00:00Z")])
    last = None
    pages = iter([(200, "the first"), (503, ""), (200, "all")])

    def answer(route: Route) -> None:
        nonlocal last
        last = n_ready, state, finished = next(states, last) or (0, "", None)
        route.fulfill(
            json={**shown, "ready": n_ready, "done": n_ready, "state": state, "finished_at": finished}
        )

    def results(route: Route) -> None:
        status, words = next(pages)
        body = f"<section id=papers>{words}</section>" if words else ""
        route.fulfill(status=status, body=body, content_type="text/html")

    page.route("**/v1/batches/x", answer)
    page.route("**/batch/x/papers", results)
    page.goto("/batch?id=x")
    expect(page.locator("#results")).to_have_text("the first")
    expect(page.locator("#results")).to_have_text("all")
    expect(page.locator("#status")).to_have_text("Done")


def test_no_line_is_replaced_that_was_edited_since(visit: VisitFn) -> None:
    """Suggestions for lines as they were cannot be chosen any more after an edit."""
    page = visit("/batch")
    typed = page.get_by_label("Papers", exact=True)
    typed.fill(f"{TITLES[3]}\n{TITLES[4][:-4]}xy")
    meant = page.get_by_role("button", name=TITLES[4])
    expect(meant).to_be_enabled()
    page.route("**/batch/lines", lambda route: route.abort())
    typed.fill(f"{TITLES[4][:-4]}xy\n{TITLES[3]}")
    expect(meant).to_be_disabled()
    page.unroute("**/batch/lines")
    typed.fill(f"{TITLES[3]}\n{TITLES[4][:-4]}xy")
    expect(meant).to_be_enabled()


def test_a_service_that_is_away_is_waited_for(visit_at: VisitFn, site: str, batch: str) -> None:
    """If the service does not answer, the view says so and tries again."""
    page = visit_at(site, "/batch")
    page.clock.install()
    page.route("**/v1/batches/*", lambda route: route.abort())
    page.goto(batch)
    expect(page.locator("#away")).to_contain_text("does not answer")
    page.unroute("**/v1/batches/*")
    page.clock.run_for(3000)
    expect(page.locator("#done")).to_contain_text("of 20 papers")
    expect(page.locator("#away")).to_be_hidden()


def test_what_cannot_be_started_is_said(visit: VisitFn) -> None:
    """Refusals of the service are shown in its words, and the lines stay."""
    page = visit("/batch")
    start(page, [" "])
    expect(page.get_by_role("alert")).to_have_text("Paste one paper at least.")
    # Typing this many lines would take longer than a test waits.
    page.get_by_label("Papers", exact=True).evaluate(
        "(box, ids) => { box.value = ids; }", "\n".join(map(str, range(10_001)))
    )
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("Start several")
    page.get_by_label("Papers", exact=True).evaluate("box => { box.value = ''; }")
    start(page, ["x" * 3000])
    expect(page.get_by_role("alert")).to_have_text("None of these lines matches a paper of this collection.")
    assert 3000 == len(page.get_by_label("Papers", exact=True).input_value())
    assert [] == barriers(page)


def test_a_library_of_many_lines_is_started(visit: VisitFn) -> None:
    """The papers of a pasted library count, not its lines."""
    entries = [f"@book{{k{number},\n title = {{{title}}},\n" for number, title in enumerate(TITLES[:40])]
    page = visit("/batch")
    page.get_by_label("Papers", exact=True).evaluate(
        "(box, text) => { box.value = text; }",
        "".join(each + " note = {x},\n" * 260 + "}\n" for each in entries),
    )
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#done")).to_have_text("40 of 40 papers")


def test_without_scripts_the_command_is_shown(visit: VisitFn) -> None:
    """Without JavaScript the form is hidden, and the page shows a command instead."""
    page = visit("/batch", java_script_enabled=False)
    expect(page.locator("#ask")).to_be_hidden()
    expect(page.get_by_text("curl")).to_be_visible()


LINES = """10.5555/ROPE.1
https://doi.org/10.5555/rope.1
arXiv:2212.11867v2
31452104

knots: a survey.
10.5555/none
arXiv:2212.99999
PMID: 99999999
knotz
Kites in Stil Air
???
<script>alert(1)</script>
P18-9999
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Iterator[TestClient]:
    """Yield a client of a service over four papers with identifiers."""
    folder = tmp_path_factory.mktemp("named")
    papers: list[dict[str, Any]] = [
        {"id": "ropes", "title": "Ropes, Compared", "abstract": "We compare ropes.", "doi": "10.5555/Rope.1"},
        {"id": "arxiv:2212.11867", "title": "Sails of Paper", "abstract": "We fold sails."},
        {"id": "pmid:31452104", "title": "Kites in Still Air", "abstract": "We fly kites."},
        {"id": "knots", "title": "Knots: A Survey", "abstract": "We tie knots."},
    ]
    build_quietly(write_corpus(folder / "papers.jsonl", papers), folder / "data", hashing)
    with client_of(folder / "data") as client:
        yield client


def matched(client: TestClient, lines: str | bytes) -> Any:
    """Return the answer to matching lines."""
    return client.post("/batch/lines", files={"list": (None, lines)})


def test_lines_are_named_as_elsewhere(client: TestClient) -> None:
    """Lines match by DOI, arXiv id, PubMed number or title, and others say which of these is unknown."""
    answer = matched(client, LINES).text
    page = Page(answer)
    (found,) = page.all("section", id="lines")
    assert ["ropes", "arxiv:2212.11867", "pmid:31452104", "knots"] == json.loads(found["data-names"])
    assert "8" == found["data-lost"]
    text = " ".join(page.text.split())
    assert "5 of 13 lines match a paper; 1 of them is a repeat." in text
    why = r"no paper here has this (DOI|arXiv id|PubMed number|title or id|id of the ACL Anthology)"
    said = re.findall(rf"Line (\d+) (?:(?!Line ).)*?{why}", text)
    assert [
        ("7", "DOI"),
        ("8", "arXiv id"),
        ("9", "PubMed number"),
        *((str(number), "title or id") for number in (10, 11, 12, 13)),
        ("14", "id of the ACL Anthology"),
    ] == said
    assert "<script>alert" not in answer
    meant = [(each["data-line"], each["data-id"]) for each in page.all("button") if "data-line" in each]
    assert {("10", "knots"), ("11", "pmid:31452104")} <= {*meant}


def test_a_library_may_be_pasted(client: TestClient) -> None:
    """Entries of a pasted library are matched, but no replacement is offered for them."""
    page = Page(
        matched(client, "@book{a, title={Kites in Still Air}}\n@book{b, title={Knotz: A Survey}}").text
    )
    (found,) = page.all("section", id="lines")
    assert (["pmid:31452104"], "1") == (json.loads(found["data-names"]), found["data-lost"])
    assert not [each for each in page.all("button") if "data-line" in each]


@pytest.mark.parametrize(
    ("lines", "status", "words"),
    [
        (b" \n ", 422, "nothing to search for"),
        (b"%PDF\0", 422, "This file is not text"),
        (b"x" * (MAX_LIBRARY_BYTES + 1), 413, "4,000,000 bytes"),
    ],
)
def test_what_are_no_lines_is_refused(client: TestClient, lines: bytes, status: int, words: str) -> None:
    """Text that has no lines to match is refused with a page that says why."""
    answer = matched(client, lines)
    assert status == answer.status_code
    assert words in Page(answer.text).text


def test_as_many_lines_are_looked_for_as_a_batch_takes(client: TestClient) -> None:
    """As many lines as a batch takes are matched, and only the first unmatched ones are listed."""
    page = Page(matched(client, "".join(f"Title {number}\n" for number in range(9_999)) + "ropes\n").text)
    assert f"And {9_999 - MAX_LISTED:,} more." in page.text
    assert "1 of 10,000 lines match a paper." in " ".join(page.text.split())
    more = matched(client, "Title\n" * 10_001)
    assert 422 == more.status_code
    assert "These are more than 10,000 papers; one batch takes 10,000 at most. Start several." in more.text


def test_a_table_is_marked_for_spreadsheets_on_the_page_alone(hashed_data: Path, tmp_path: Path) -> None:
    """The page's CSV begins with the mark by which Excel knows UTF-8; that of the API has none."""
    data = copytree(hashed_data, tmp_path / "data")
    with TestClient(create_app(Settings(data=data, device="cpu"))) as client:
        batch = client.post("/v1/batches", json={"seeds": IDS[:1]}).json()["id"]
        shown = client.get(f"/batch/{batch}.csv").content
        read = client.get(f"/v1/batches/{batch}/results", headers={"Accept": "text/csv"}).content
    assert (b"\xef\xbb\xbf", False) == (shown[:3], read.startswith(b"\xef\xbb\xbf"))


def test_results_need_a_key_where_there_are_keys(hashed_data: Path, tmp_path: Path) -> None:
    """With keys, the view is open, but the files of a batch are only for its owner."""
    data = copytree(hashed_data, tmp_path / "data")
    with Keys.open(data / CATALOG_FILE) as keys:
        mine, other = (
            keys.create(name, scope=Scope.READ, expires_days=1).token for name in ("mine", "other")
        )
    with TestClient(create_app(Settings(data=data, device="cpu"))) as client:
        started = client.post("/v1/batches", json={"seeds": IDS[:1]}, headers={"X-API-Key": mine})
        path = f"/batch/{started.json()['id']}.csv"
        assert [200, 200] == [client.get(f"/batch{query}").status_code for query in ("", "?id=x")]
        for owned in (path, path.replace(".csv", "/papers")):
            statuses = [
                client.get(owned, headers={"X-API-Key": key}).status_code for key in ("", other, mine)
            ]
            assert [401, 404, 200] == statuses
        assert 401 == matched(client, "ropes").status_code
