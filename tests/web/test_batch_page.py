"""The batch view in a browser: ids in, progress, files out, whatever happens meanwhile."""

import json
import re
from pathlib import Path
from shutil import copytree

import httpx
import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Page, Route, expect

from indexer.catalog.catalog import CATALOG_FILE
from service.access.api_keys import Keys, Scope
from service.app import create_app
from service.settings import Settings
from tests.support.builds import DEMO_CORPUS
from tests.support.servers.browser import VisitFn, barriers

IDS = [json.loads(line)["id"] for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]


def start(page: Page, ids: list[str]) -> None:
    """Fill the form and send it."""
    page.get_by_label("Ids of papers").fill("\n".join(ids))
    page.get_by_label("Papers for each").fill("3")
    page.get_by_role("button", name="Start").click()


SEEDS = [*IDS[:19], "no such paper"]


@pytest.fixture
def batch(site: str) -> str:
    """The address of the view of a batch of twenty papers, one of them unknown."""
    started = httpx.post(f"{site}/v1/batches", json={"seeds": SEEDS, "limit": 3}).raise_for_status()
    return f"/batch?id={started.json()['id']}"


def test_a_batch_is_started_and_watched(visit: VisitFn) -> None:
    """Different ids are counted once; the view says how many are done, and how many have no answer."""
    page = visit("/batch")
    start(page, [*SEEDS, "", IDS[0]])
    expect(page.get_by_role("heading", name="Done", exact=True)).to_be_visible()
    expect(page.locator("#done")).to_have_text("20 of 20 papers")
    expect(page.locator("#problems")).to_have_text("1 of them has no answer; the file says why.")
    assert [] == barriers(page)
    page.go_back()
    expect(page.get_by_label("Ids of papers")).to_be_visible()


def test_its_files_are_downloaded(visit: VisitFn, batch: str, tmp_path: Path) -> None:
    """The CSV has a header and three rows a paper, the NDJSON a line a paper."""
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
    """The address alone brings the batch back; once removed, it says so there."""
    page = visit(batch)
    page.reload()
    expect(page.locator("#done")).to_have_text("20 of 20 papers")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_role("heading", name="Removed")).to_be_visible()
    for gone in ("#bar", "#csv", "#ndjson", "#remove"):
        expect(page.locator(gone)).to_be_hidden()
    page.reload()
    expect(page.get_by_role("heading", name="No such batch")).to_be_visible()


def test_progress_is_told_and_a_batch_cancelled(visit_at: VisitFn, site: str) -> None:
    """While a batch runs the view says how fast it goes and how long it takes; cancelling ends it."""
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


def test_a_service_that_is_away_is_waited_for(visit_at: VisitFn, site: str, batch: str) -> None:
    """While the service does not answer the view says so and goes on asking."""
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
    """What the service refuses is told in its words, and the ids stay."""
    page = visit("/batch")
    start(page, [" "])
    expect(page.get_by_role("alert")).to_have_text("Paste the id of one paper at least.")
    # Typed in, so many lines take longer than a test waits.
    page.get_by_label("Ids of papers").evaluate(
        "(box, ids) => { box.value = ids; }", "\n".join(map(str, range(10_001)))
    )
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("Start several")
    page.get_by_label("Ids of papers").evaluate("box => { box.value = ''; }")
    start(page, ["x" * 3000])
    expect(page.get_by_role("alert")).to_contain_text("at most")
    assert 3000 == len(page.get_by_label("Ids of papers").input_value())
    assert [] == barriers(page)


def test_without_scripts_the_command_is_shown(visit: VisitFn) -> None:
    """Without JavaScript there is no form that does nothing, but what to type in a terminal."""
    page = visit("/batch", java_script_enabled=False)
    expect(page.locator("form")).to_be_hidden()
    expect(page.get_by_text("curl")).to_be_visible()


def test_results_need_a_key_where_there_are_keys(hashed_data: Path, tmp_path: Path) -> None:
    """The view itself tells of nothing and is open; the files of a batch are its owner's alone."""
    data = copytree(hashed_data, tmp_path / "data")
    with Keys.open(data / CATALOG_FILE) as keys:
        mine, other = (
            keys.create(name, scope=Scope.READ, expires_days=1).token for name in ("mine", "other")
        )
    with TestClient(create_app(Settings(data=data, device="cpu"))) as client:
        started = client.post("/v1/batches", json={"seeds": IDS[:1]}, headers={"X-API-Key": mine})
        path = f"/batch/{started.json()['id']}.csv"
        assert [200, 200] == [client.get(f"/batch{query}").status_code for query in ("", "?id=x")]
        statuses = [client.get(path, headers={"X-API-Key": key}).status_code for key in ("", other, mine)]
    assert [401, 404, 200] == statuses
