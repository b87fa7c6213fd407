"""Tests of `/v1/batches`: results of single searches, in order, readable in parts and in three formats."""

import csv
import gc
import io
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from indexer.files.data_folder import CATALOG_FILE, DataFolder
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.removal import remove_old_generations
from models.encoder import Encoder, load_encoder
from models.errors import DeadlineError, EncoderMismatchError, StorageError
from service.access.api_keys import Keys, NewKey, Scope
from service.access.policy import MAX_BATCH_BYTES
from service.access.queue import Admission
from service.api.schemas.batches import MAX_CONFLICTS
from service.api.services import Services
from service.batches.worker import ChunkWorker
from service.collection.generations import open_engine
from service.collection.leases import GenerationLeases
from service.collection.pinned import MAX_OPEN, PinnedEngines
from service.match.answer import Matcher
from service.search.engine import SearchEngine
from service.search.query import Seed
from service.search.seeds import SeedReader
from service.settings import Settings
from service.timings import Timings
from tests.support.annotators import annotated
from tests.support.builds import DEMO_CORPUS, Refusing, build_quietly, many_papers, write_corpus
from tests.support.clients import client_of
from tests.support.servers.patience import soon

IDS = [json.loads(line)["id"] for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]
NDJSON, CSV, PARQUET = "application/x-ndjson", "text/csv", "application/vnd.apache.parquet"
FINAL = {"done", "failed"}
MATCH = {"submissions": [{"paper_id": IDS[0]}], "profiles": [{"name": "a", "papers": [IDS[1]]}]}
PASTED = {"title": "Floods", "abstract": "Rivers flood towns. We fit a graph. It forecasts floods."}


@pytest.fixture
def data(hashed_data: Path, tmp_path: Path) -> Path:
    """Return this test's own copy of a data folder with the demo corpus."""
    return Path(copytree(hashed_data, tmp_path / "data"))


def batching(data: Path, **given: Any) -> TestClient:
    """Return a client of a service over ``data`` that compares few papers with a query."""
    return client_of(data, device="cpu", candidates=20, **given)


@pytest.fixture(scope="module")
def client(hashed_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Yield a client of one service for all tests that leave it unchanged."""
    with batching(Path(copytree(hashed_data, tmp_path_factory.mktemp("batches") / "data"))) as client:
        yield client


def finished(client: TestClient, path: str, **options: Any) -> dict[str, Any]:
    """Return the batch once it is finished."""
    soon(lambda: client.get(path, **options).json()["state"] in FINAL)
    return dict(client.get(path, **options).json())


def lines(client: TestClient, path: str, **params: int) -> list[dict[str, Any]]:
    """Return the results, by default from the first."""
    answer = client.get(f"{path}/results", params=params)
    assert 200 == answer.status_code, answer.text
    return [json.loads(line) for line in answer.content.split(b"\n") if line]


def single(client: TestClient, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a search without the time it took."""
    answer = client.post("/v1/search", json=body).json()
    del answer["took_ms"]
    return dict(answer)


def test_a_batch_is_as_many_single_searches(client: TestClient) -> None:
    """Queries of every kind have the answers of single searches, cursors included; failed ones say why."""
    bodies: list[dict[str, Any]] = [
        {"query": {"paper_id": IDS[3]}, "facet": "method", "unlike": {"facet": "background"}},
        {"query": PASTED, "sentences": [1], "limit": 3, "scorer": "single", "tau": 2},
        {"query": {"text": "graphs forecast floods"}, "filters": {"year_from": 2020, "exclude_ids": IDS[:5]}},
        {"query": {"paper_id": "not there"}},
        {"query": PASTED, "sentences": [7]},
        {"query": {"paper_id": IDS[3]}, "facet": ["method", "other"]},  # with a warning
        {"query": {"paper_id": IDS[0]}, "filters": {"venues": ["nowhere"]}},
        *({"query": {"paper_id": paper_id}, "limit": 100} for paper_id in IDS[:6]),
    ]
    started = client.post("/v1/batches", json={"queries": bodies})
    assert 202 == started.status_code, started.text
    path = started.headers["Location"]
    assert f"/v1/batches/{started.json()['id']}" == path
    batch = finished(client, path)
    assert ("done", 13, 13, 2, 13) == tuple(
        batch[name] for name in ("state", "queries", "done", "problems", "ready")
    )
    for number, (line, body) in enumerate(zip(lines(client, path), bodies, strict=True)):
        assert (number, body["query"].get("paper_id")) == (line.pop("seed"), line.pop("paper_id"))
        if 7 < number < 12:
            assert 99 == len(line["results"])  # in the first and the last of these, which are in two chunks
        elif number in {3, 4}:
            assert {"type", "title", "status", "detail"} == set(line["problem"])
            assert client.post("/v1/search", json=body).status_code == line["problem"]["status"]
        else:
            assert single(client, body) == line
    assert "facet_missing" in lines(client, path)[5]["warnings"][0]["code"]


def test_times_are_in_utc(client: TestClient) -> None:
    """A batch has its start and end in UTC, to the second, as of RFC 3339."""
    before = datetime.now(UTC).replace(microsecond=0)
    started = client.post("/v1/batches", json={"seeds": IDS[:1]})
    assert started.json()["finished_at"] is None
    batch = finished(client, started.headers["Location"])
    times = [batch[name] for name in ("created_at", "finished_at")]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", time) for time in times)
    created, ended = map(datetime.fromisoformat, times)
    assert before <= created <= ended <= datetime.now(UTC)


def test_seeds_share_everything_else(client: TestClient) -> None:
    """All seeds of a batch share one query shape, and repeated seeds are answered twice."""
    shape = {"facet": ["method"], "focus": 0.5, "filters": {"ids": IDS[:50]}, "limit": 2}
    seeds = [*IDS[:50], IDS[0], "nobody"]
    path = client.post("/v1/batches", json={"seeds": seeds, **shape}).headers["Location"]
    batch = finished(client, path)
    assert (52, 1) == (batch["done"], batch["problems"])
    results = lines(client, path)
    assert seeds == [line["paper_id"] for line in results]
    assert list(range(52)) == [line["seed"] for line in results]
    for number in (0, 49, 50):
        expected = single(client, {"query": {"paper_id": seeds[number]}, **shape})
        assert expected == {k: v for k, v in results[number].items() if k not in {"seed", "paper_id"}}
    assert results[0]["results"] == results[50]["results"]


def test_seeds_may_have_aspects_of_their_own(client: TestClient) -> None:
    """Seeds may be names, papers and texts; options of a seed take precedence over shared ones."""
    seeds = [IDS[0], {"paper_id": IDS[1], "facet": "result"}, PASTED, {"text": "Rivers flood towns."}]
    path = client.post("/v1/batches", json={"seeds": seeds, "limit": 2}).headers["Location"]
    finished(client, path)
    bodies = [
        {"query": {"paper_id": IDS[0]}},
        {"query": {"paper_id": IDS[1]}, "facet": "result"},
        {"query": PASTED},
        {"query": {"text": "Rivers flood towns."}},
    ]
    for line, body in zip(lines(client, path), bodies, strict=True):
        assert single(client, {**body, "limit": 2})["results"] == line["results"]


def recommended(client: TestClient, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request for recommendations without the time it took."""
    answer = client.post("/v1/recommendations", json=body).json()
    del answer["took_ms"]
    return dict(answer)


def test_recommendations_are_answered_each_as_alone(client: TestClient) -> None:
    """Each request for recommendations has its single answer, cursor included, and its name if given."""
    bodies: list[dict[str, Any]] = [
        {
            "seeds": [IDS[0], {"paper_id": IDS[1], "facet": "method"}, PASTED],
            "negatives": [IDS[9]],
            "limit": 3,
        },
        {"seeds": IDS[2:6], "strategy": "all", "filters": {"year_from": 2020}},
        {"seeds": ["nobody"]},
    ]
    queries = [bodies[0] | {"name": "ada"}, *bodies[1:]]
    path = client.post("/v1/batches", json={"recommendations": queries}).headers["Location"]
    assert (3, 0) == tuple(finished(client, path)[name] for name in ("done", "problems"))
    for number, (line, body) in enumerate(zip(lines(client, path), bodies, strict=True)):
        assert (number, None) == (line.pop("seed"), line.pop("paper_id"))
        assert ("ada" if number == 0 else "") == line.pop("name")
        assert recommended(client, body) == line
    table = client.get(f"{path}/results", headers={"Accept": "text/csv"}).text.splitlines()
    assert 3 == sum(row.startswith('"0","ada"') for row in table)


def test_profiles_share_everything_else(client: TestClient) -> None:
    """Each profile gets its recommendations without its own papers, with the options shared by all."""
    readers = [{"name": f"reader {i}", "papers": IDS[i : i + 3]} for i in range(52)]
    shape = {"negatives": [IDS[99]], "limit": 2, "filters": {"year_from": 2018}}
    path = client.post("/v1/batches", json={"profiles": readers, **shape}).headers["Location"]
    assert 52 == finished(client, path)["done"]
    results = lines(client, path)
    assert [each["name"] for each in readers] == [line["name"] for line in results]
    for number in (0, 31, 51):
        line = {k: v for k, v in results[number].items() if k not in {"seed", "paper_id", "name"}}
        assert recommended(client, {"seeds": readers[number]["papers"], **shape}) == line
        assert not {each["paper"]["id"] for each in line["results"]} & set(readers[number]["papers"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"recommendations": [{"seeds": [IDS[0]] * 400}] * 501}, "more than 200000"),
        (
            {
                "profiles": [{"name": name, "papers": [IDS[0]] * n} for name, n in (("a", 9), ("b", 400))],
                "negatives": [IDS[1]] * 101,
            },
            "The papers of profile 1 (from 0) and the negatives are 501, more than 500",
        ),
        ({"profiles": [{"name": "", "papers": [IDS[0]]}]}, "name"),
        ({"profiles": [], "seeds": [IDS[0]]}, "one of seeds, queries, recommendations, profiles and match"),
        ({"match": MATCH | {"limit": 5_000}}, "5000 profiles x 1 reasons are more than 2000"),
        ({"match": MATCH | {"profiles": [{"name": "a", "papers": ["none"]}]}}, "no paper in this collection"),
        ({"match": MATCH | {"conflicts": [{"submission": 1, "profile": "a"}]}}, "names submission 1"),
        (
            {"match": MATCH | {"conflicts": [{"submission": 0, "profile": "b"}]}},
            "names a profile that is not in this request",
        ),
        (
            {"match": {**MATCH, "submissions": MATCH["submissions"] * 2_001, "limit": 5_000, "reasons": 0}},
            "10005000 pairs, more than 10000000",
        ),
        ({"match": MATCH | {"profiles": MATCH["profiles"] * 2}}, "have the same name"),
        (
            {
                "match": MATCH
                | {"profiles": [{"name": str(i), "papers": [IDS[0]] * 5_000} for i in range(41)]}
            },
            "more than 200000",
        ),
    ],
)
def test_what_is_too_much_is_refused(client: TestClient, body: dict[str, Any], message: str) -> None:
    """A batch that is too large or contradictory is refused."""
    response = client.post("/v1/batches", json=body)
    assert (422, True) == (response.status_code, message in response.text)


REVIEWERS = [
    {"name": f"reviewer {number}", "papers": IDS[3 * number : 3 * number + 3]} for number in range(20)
]


def test_a_match_is_answered_a_submission_at_a_time(client: TestClient) -> None:
    """Each submission has the answer of ``/v1/match`` with its conflicts; an unknown one has a problem."""
    submissions = [{"paper_id": IDS[number]} for number in range(55)] + [PASTED, {"paper_id": "nobody"}]
    match = {
        "submissions": submissions,
        "profiles": REVIEWERS,
        "conflicts": [{"submission": 7, "profile": "reviewer 2"}],
        "limit": 20,
        "reasons": 0,
    }
    path = client.post("/v1/batches", json={"match": match}).headers["Location"]
    assert (57, 1) == tuple(finished(client, path)[name] for name in ("done", "problems"))
    results = lines(client, path)
    assert [each.get("paper_id") for each in submissions] == [line["paper_id"] for line in results]
    assert 404 == results[56]["problem"]["status"]
    for number in (0, 7, 49, 50, 55):
        alone = {**match, "submissions": [submissions[number]], "conflicts": []}
        if number == 7:
            alone["conflicts"] = [{"submission": 0, "profile": "reviewer 2"}]
        answer = client.post("/v1/match", json=alone).json()
        (expected,) = answer["submissions"]
        assert {**expected, "submission": number} == results[number]["match"]
        assert answer["warnings"] == results[number]["warnings"]
    assert {20, 19} == {len(line["match"]["profiles"]) for line in results[:56]}


def test_a_match_gives_as_many_reasons_as_requested(client: TestClient) -> None:
    """A match in several chunks has the requested reasons, and uses saved profiles by name."""
    kept = {"papers": IDS[5:9], "conflicts": [IDS[0]]}
    assert 201 == client.put("/v1/profiles/mine", json=kept).status_code
    profiles = [*REVIEWERS, {"name": "mine"}]
    match = {
        "submissions": [{"paper_id": each} for each in IDS[:12]],
        "profiles": profiles,
        "limit": 21,
        "own_conflicts": False,
    }
    path = client.post("/v1/batches", json={"match": match | {"reasons": 5}}).headers["Location"]
    finished(client, path)
    results = lines(client, path)
    for number in (0, 3, 11):
        alone = {**match, "submissions": [{"paper_id": IDS[number]}], "reasons": 5}
        (expected,) = client.post("/v1/match", json=alone).json()["submissions"]
        assert {**expected, "submission": number} == results[number]["match"]
    names = [{each["profile"] for each in line["match"]["profiles"]} for line in results]
    assert ["mine" in each for each in names] == [False, *[True] * 11]


def test_a_match_as_tables(client: TestClient) -> None:
    """In CSV and Parquet, a match has one row per profile with its affinity."""
    submissions = [{"paper_id": IDS[0]}, {"paper_id": "=nobody()"}, PASTED]
    match = {"submissions": submissions, "profiles": REVIEWERS, "limit": 2}
    path = client.post("/v1/batches", json={"match": match}).headers["Location"]
    finished(client, path)
    results = [line["match"]["profiles"] for line in lines(client, path) if "match" in line]
    text = client.get(f"{path}/results", headers={"Accept": CSV}).text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert ["0", "0", "1", "2", "2"] == [row["seed"] for row in rows]
    assert ["1", "2", "", "1", "2"] == [row["rank"] for row in rows]
    assert ("'=nobody()", "") == (rows[2]["query_id"], rows[2]["profile"])
    assert rows[2]["problem"]
    matched = [each for profiles in results for each in profiles]
    parquet = pq.read_table(
        io.BytesIO(client.get(f"{path}/results", headers={"Accept": PARQUET}).content)
    ).to_pylist()
    for table in (rows, parquet):
        found = [row for row in table if row["profile"]]
        assert [each["profile"] for each in matched] == [row["profile"] for row in found]
        assert [each["affinity"] for each in matched] == [float(row["affinity"]) for row in found]
        assert [each["papers"] for each in matched] == [int(row["papers"]) for row in found]
    none = client.get(f"{path}/results?start=3", headers={"Accept": PARQUET}).content
    assert (list(parquet[0]), 0) == ((empty := pq.read_table(io.BytesIO(none))).column_names, len(empty))


def test_results_are_read_on(client: TestClient) -> None:
    """Results can be read from any number; headers say where to continue and whether there is more."""
    seeds = [*IDS[:50], *IDS[:10]]  # done in chunks of fifty
    path = client.post("/v1/batches", json={"seeds": seeds, "limit": 1}).headers["Location"]
    read: list[int] = []
    state = "queued"
    while state not in FINAL:
        answer = client.get(f"{path}/results?start={len(read)}")
        read += [json.loads(line)["seed"] for line in answer.content.splitlines()]
        assert str(len(read)) == answer.headers["X-Akin-Next-Start"]
        assert "000001" == answer.headers["X-Akin-Generation"]
        state = answer.headers["X-Akin-Batch-State"]
    assert list(range(60)) == read
    for start in (1, 49, 50, 59, 60, 10_000):
        assert list(range(start, 60)) == [line["seed"] for line in lines(client, path, start=start)]
    assert 422 == client.get(f"{path}/results?start=-1").status_code


def test_results_as_tables(client: TestClient) -> None:
    """A later part of CSV has no header; Parquet has the same rows with types; every seed has a row."""
    seeds = [*IDS[:70], "=nobody()"]
    path = client.post("/v1/batches", json={"seeds": seeds, "limit": 3}).headers["Location"]
    finished(client, path)
    tables = {
        (form, start): client.get(f"{path}/results?start={start}", headers={"Accept": form})
        for form in (CSV, PARQUET)
        for start in (0, 60)
    }
    whole = tables[CSV, 0].text
    assert whole.endswith(tables[CSV, 60].text)
    rows = list(csv.DictReader(io.StringIO(whole)))
    assert 70 * 3 + 1 == len(rows)
    assert sorted({int(row["seed"]) for row in rows}) == list(range(71))
    assert ("'=nobody()", "") == (rows[-1]["query_id"], rows[-1]["id"])
    assert rows[-1]["problem"].startswith("No paper of this collection")
    strengths = [each["strength"] for line in lines(client, path)[:70] for each in line["results"]]
    typed = pq.read_table(io.BytesIO(tables[PARQUET, 0].content))
    assert pa.float64() == typed.schema.field("nearer_than").type
    for table in (rows, typed.to_pylist()):
        assert [(each["label"], each["nearer_than"]) for each in strengths] == [
            (row["strength"], float(row["nearer_than"])) for row in table[:-1]
        ]
        assert not table[-1]["strength"]
        assert table[-1]["nearer_than"] in {"", None}
    best = lines(client, path)[5]["results"][0]
    assert (best["paper"]["id"], str(best["score"]), "1") == tuple(
        rows[15][name] for name in ("id", "score", "rank")
    )
    table = pq.read_table(io.BytesIO(tables[PARQUET, 0].content)).to_pylist()
    assert [row["id"] or None for row in rows] == [row["id"] for row in table]
    assert (best["score"], best["paper"]["authors"]) == (table[15]["score"], table[15]["authors"])
    assert 11 * 3 - 2 == pq.read_table(io.BytesIO(tables[PARQUET, 60].content)).num_rows
    refused = client.get(f"{path}/results", headers={"Accept": "text/html"})
    assert (406, "urn:akin:problem:answer-format") == (refused.status_code, refused.json()["type"])


PATIENT = Timings(patience_s=60.0)


def hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep batches of a ``PATIENT`` service waiting, as many concurrent requests would."""
    monkeypatch.setattr("service.access.queue.Admission.idle", False)


def test_an_unfinished_batch_can_be_cancelled(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unfinished batch has no Parquet yet, and once cancelled it is gone."""
    hold(monkeypatch)
    with batching(data, timings=PATIENT) as client:
        path = client.post("/v1/batches", json={"seeds": IDS}).headers["Location"]
        unfinished = client.get(f"{path}/results", headers={"Accept": PARQUET})
        problem = (unfinished.status_code, unfinished.json()["type"])
        assert (409, "urn:akin:problem:batch-unfinished") == problem
        assert 204 == client.delete(path).status_code
        assert 204 == client.delete(path).status_code
        for gone in (client.get(path), client.get(f"{path}/results")):
            assert (404, "urn:akin:problem:batch-not-found") == (gone.status_code, gone.json()["type"])


def test_the_same_key_starts_one_batch(client: TestClient) -> None:
    """The same key starts one batch for equal JSON; another body is a conflict, an invalid key a 422."""
    key = {"Idempotency-Key": "once"}
    first = client.post("/v1/batches", json={"seeds": IDS[:2], "limit": 3}, headers=key)
    again = client.post("/v1/batches", content=json.dumps({"limit": 3, "seeds": IDS[:2]}, indent=4),
                        headers={**key, "Content-Type": "application/json"})  # fmt: skip
    assert (202, first.json()["id"]) == (again.status_code, again.json()["id"])
    other = client.post("/v1/batches", json={"seeds": IDS[:2], "limit": 4}, headers=key)
    assert (409, "urn:akin:problem:idempotency") == (other.status_code, other.json()["type"])
    for bad in (b"", b"a b", b"\xff", b"x" * 256):
        headers = {"Idempotency-Key": bad}
        assert 422 == client.post("/v1/batches", json={"seeds": ["a"]}, headers=headers).status_code  # type: ignore[arg-type]  # bytes pass


@pytest.mark.parametrize(
    "body",
    [
        {}, {"seeds": []}, {"queries": []}, {"seeds": ["a"] * 10_001}, {"seeds": [1]}, {"seeds": [""]},
        {"seeds": ["a"], "queries": [{"query": PASTED}]}, {"queries": [{"query": PASTED}], "limit": 3},
        {"queries": [{"query": PASTED, "cursor": "a"}]}, {"seeds": ["a"], "facet": "x"},
        {"seeds": ["a"], "facet": "method", "sentences": [0]}, {"seeds": ["a"], "cursor": "a"},
    ],
)  # fmt: skip
def test_a_batch_is_one_kind_of_list(client: TestClient, body: dict[str, Any]) -> None:
    """Empty, too long or mixed lists, cursors and invalid searches are refused."""
    assert 422 == client.post("/v1/batches", json=body).status_code


def test_a_batch_is_its_callers(data: Path) -> None:
    """Another key cannot see or cancel a batch, an admin key can see it; a read key is enough to start it."""
    with Keys.open(data / CATALOG_FILE) as keys:
        mine, other = (keys.create(n, scope=Scope.READ, expires_days=1).token for n in "ab")
        admin = keys.create("c", scope=Scope.ADMIN, expires_days=1).token
    with batching(data) as client:
        started = client.post("/v1/batches", json={"seeds": IDS[:3]}, headers={"x-api-key": mine})
        path = started.headers["Location"]
        for token, status in ((other, 404), (admin, 200), (mine, 200)):
            headers = {"x-api-key": token}
            answers = [client.get(path, headers=headers), client.get(f"{path}/results", headers=headers)]
            assert [status, status] == [answer.status_code for answer in answers]
        assert 204 == client.delete(path, headers={"x-api-key": other}).status_code
        finished(client, path, headers={"x-api-key": mine})
        assert 204 == client.delete(path, headers={"x-api-key": mine}).status_code


def test_batches_are_listed_to_their_callers(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key lists its own batches, an admin key all with their owners, a page at a time."""
    monkeypatch.setattr("service.api.routes.batches.MAX_LISTED", 2)
    with Keys.open(data / CATALOG_FILE) as keys:
        made = [keys.create(n, scope=Scope.READ, expires_days=1) for n in "ab"]
        admin = keys.create("c", scope=Scope.ADMIN, expires_days=1)
    with batching(data) as client:

        def listed(key: NewKey) -> list[dict[str, Any]]:
            found, after = [], ""
            while after is not None:
                page = client.get(f"/v1/batches?after={after}", headers={"x-api-key": key.token}).json()
                found += page["batches"]
                after = page["next_after"]
            return found

        started = [
            client.post("/v1/batches", json={"seeds": IDS[:1]}, headers={"x-api-key": key.token}).json()["id"]
            for key in (*made, made[0], made[0])
        ]
        assert sorted(each["id"] for each in listed(admin)) == sorted(started)
        assert [made[1].key.id] == [each["owner"] for each in listed(made[1])]
        (own,) = listed(made[1])
        own_path = f"/v1/batches/{own['id']}"
        assert finished(client, own_path, headers={"x-api-key": made[1].token}) == listed(made[1])[0]
        assert 3 == len(listed(made[0]))
        refused = client.get("/v1/batches?after=x", headers={"x-api-key": admin.token})
        assert (422, True) == (refused.status_code, "after" in refused.json()["detail"])


def test_a_full_queue_is_refused_at_once(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller beyond its quarter gets 429, and one beyond the whole queue 503, both with Retry-After."""
    hold(monkeypatch)
    with Keys.open(data / CATALOG_FILE) as keys:
        tokens = [keys.create(n, scope=Scope.READ, expires_days=1).token for n in "abcde"]
    with batching(data, batches=4, timings=PATIENT) as client:
        statuses = []
        for token in [*tokens[:4], tokens[0], tokens[4]]:
            answer = client.post("/v1/batches", json={"seeds": IDS}, headers={"x-api-key": token})
            statuses.append((answer.status_code, answer.headers.get("Retry-After")))
        assert [(202, None)] * 4 + [(429, "30"), (503, "30")] == statuses


def test_what_batches_hold_is_limited(data: Path) -> None:
    """A caller whose results fill their space is refused until it deletes some."""
    body = {"seeds": IDS[:10], "limit": 100}
    with batching(data, batch_mib=1, batch_days=2) as client:
        path = client.post("/v1/batches", json=body).headers["Location"]
        assert "done" == finished(client, path)["state"]
        refused = client.post("/v1/batches", json=body)
        assert (429, "3600") == (refused.status_code, refused.headers["Retry-After"])
        assert f"finished: {path.rpartition('/')[2]}" in refused.json()["detail"]
        assert "2 days" in refused.json()["detail"]
        client.delete(path)
        assert 202 == client.post("/v1/batches", json=body).status_code


def test_old_batches_that_cannot_be_removed_hold_up_no_new_ones(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If removing old batches fails at the start, the log says so and new batches are still done."""
    tried = []

    def fail(*_: object, max_age_s: int) -> bool:
        tried.append(max_age_s)
        raise StorageError("the disk is full")

    monkeypatch.setattr("service.batches.jobs.Jobs.expire", fail)
    with capture_logs() as logged, batching(data, batch_days=2) as client:
        path = client.post("/v1/batches", json={"seeds": IDS[:3], "limit": 1}).headers["Location"]
        assert "done" == finished(client, path)["state"]
    assert [2 * 24 * 3600] == tried
    errors = [(each["event"], each["error"]) for each in logged if "error" in each]
    assert [("old_batches_not_removed", "the disk is full")] == errors


def test_old_batches_are_removed_some_at_a_time(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old batches are removed in portions, and batches are worked on in between."""
    tried: list[int] = []

    def remove(*_: object, max_age_s: int) -> bool:
        tried.append(max_age_s)
        return len(tried) == 3

    monkeypatch.setattr("service.batches.jobs.Jobs.expire", remove)
    with batching(data) as client:
        soon(lambda: len(tried) == 3)
        path = client.post("/v1/batches", json={"seeds": IDS[:3], "limit": 1}).headers["Location"]
        assert "done" == finished(client, path)["state"]
    assert 3 == len(tried)


def test_batches_give_way_to_searches(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While all places are taken, each query looks for one repeatedly, and then goes on anyway."""
    looks: list[Admission] = []
    monkeypatch.setattr("service.access.queue.Admission.idle", property(looks.append))  # None: never idle
    with batching(data, timings=Timings(patience_s=0.2)) as client:
        path = client.post("/v1/batches", json={"seeds": IDS[:5]}).headers["Location"]
        assert "done" == finished(client, path)["state"]
    assert len(looks) >= 2 * 5


def test_what_is_worked_on_stays_leased(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease of a chunk is renewed while it is worked on; if another worker takes it, work ends."""
    hold(monkeypatch)

    def of_chunk(statement: str) -> list[Any]:
        with closing(sqlite3.connect(data / CATALOG_FILE, isolation_level=None)) as catalog:
            return catalog.execute(statement).fetchall()

    def leases() -> list[Any]:
        return of_chunk("SELECT lease, lease_until FROM job_chunks WHERE lease IS NOT NULL")

    timings = Timings(patience_s=1e6, lease_s=1.2)
    with batching(data, timings=timings) as client:
        client.post("/v1/batches", json={"seeds": IDS[:3]})
        soon(lambda: leases() != [])
        (lease, until), *_ = leases()
        soon(lambda: leases()[0][1] > until)
        assert lease == leases()[0][0]
        of_chunk("UPDATE job_chunks SET lease = 'another', lease_until = 4e15")
        under_way = client.app.state.services.batches.worker.under_way  # type: ignore[attr-defined]
        soon(lambda: not under_way)
        assert ["another"] == [each for each, _ in leases()]


def test_a_fault_of_ours_holds_up_no_batch(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error of the worker is in /readyz, and batches are done once it no longer occurs."""
    with monkeypatch.context() as broken:
        broken.setattr("service.batches.worker.ChunkWorker.work_one", lambda *_: 1 / 0)
        path = client.post("/v1/batches", json={"seeds": IDS[:3], "limit": 1}).headers["Location"]
        soon(lambda: "batches" in degraded(client))
        # The degradation ends as soon as a chunk is done, however many are left.
        broken.setattr("service.batches.worker.ChunkWorker.work_one", lambda *_: True)
        soon(lambda: not degraded(client))
    assert "done" == finished(client, path)["state"]


def fail_at(
    monkeypatch: pytest.MonkeyPatch, paper_id: str, error: type[Exception] = ZeroDivisionError
) -> None:
    """Make reading this paper for a search fail with an unexpected error."""
    read = SeedReader.read

    def fail(reader: SeedReader, seed: Seed) -> Any:
        if seed.paper_id == paper_id:
            raise error("secret")
        return read(reader, seed)

    monkeypatch.setattr(SeedReader, "read", fail)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ZeroDivisionError, ("urn:akin:problem:internal", 500)),
        (EncoderMismatchError, ("urn:akin:problem:encoder-mismatch", 503)),  # of AKIN_ENCODER
    ],
)
@pytest.mark.parametrize(
    "body",
    [
        {"seeds": IDS[:4], "limit": 1},
        {"match": {**MATCH, "submissions": [{"paper_id": each} for each in IDS[:4]]}},
    ],
    ids=["searches", "a match"],
)
def test_a_query_that_meets_a_fault_of_ours_has_a_problem(
    client: TestClient,
    monkeypatch: pytest.MonkeyPatch,
    body: dict[str, Any],
    error: type[Exception],
    kind: tuple[str, int],
) -> None:
    """Only the query with an unexpected error has a problem, without details; the batch is done."""
    fail_at(monkeypatch, IDS[2], error)
    path = client.post("/v1/batches", json=body).headers["Location"]
    assert ("done", 1) == tuple(finished(client, path)[name] for name in ("state", "problems"))
    assert [None, None, kind, None] == [
        (each["problem"]["type"], each["problem"]["status"]) if "problem" in each else None
        for each in lines(client, path)
    ]
    assert "secret" not in client.get(f"{path}/results").text
    assert not degraded(client)


def test_submissions_that_take_too_long_together_are_compared_alone(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each submission has its own time, as in a request of its own, although several are compared at once."""
    match_each, lots = Matcher.match_each, []

    def slow(matcher: Matcher, lot: list[Any]) -> Any:
        lots.append(len(lot))
        if len(lot) > 1:
            raise DeadlineError("It takes too long.")
        return match_each(matcher, lot)

    monkeypatch.setattr(Matcher, "match_each", slow)
    body = {"match": {**MATCH, "submissions": [{"paper_id": each} for each in IDS[:3]]}}
    path = client.post("/v1/batches", json=body).headers["Location"]
    assert ("done", 0) == tuple(finished(client, path)[name] for name in ("state", "problems"))
    assert [3, 1, 1, 1] == lots


def served(data: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """Return a client of a service with this encoder that soon tries again what failed."""
    engine = SearchEngine(open_snapshot(data), lambda: annotated(encoder), n_candidates=20)
    return client_of(data, engine, device="cpu", timings=Timings(lease_s=0.3))


BAD = {"title": "x", "abstract": "We POISON it. We do."}


@pytest.mark.parametrize(
    "body",
    [
        {"queries": [{"query": {"paper_id": IDS[0]}}, {"query": BAD}, {"query": PASTED}]},
        {"match": {**MATCH, "submissions": [{"paper_id": IDS[0]}, BAD, PASTED]}},
    ],
    ids=["searches", "a match"],
)
def test_a_text_that_the_encoder_fails_on_has_a_problem(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch, body: dict[str, Any]
) -> None:
    """After some attempts only the query with the text has a problem, and the log names it."""
    with served(data, Refusing(hashing), monkeypatch) as client, capture_logs() as logs:
        path = client.post("/v1/batches", json=body).headers["Location"]
        assert ("done", 1) == tuple(finished(client, path)[name] for name in ("state", "problems"))
        found = [each.get("problem") for each in lines(client, path)]
    assert (None, "urn:akin:problem:encoder", None) == (found[0], found[1]["type"], found[2])
    assert "The encoder cannot be loaded or run." in found[1]["detail"]
    noted = [each for each in logs if each["event"] == "encoder_failed_on_query"]
    assert [(path.rpartition("/")[2], 1)] == [(each["job"], each["query"]) for each in noted]


def test_a_batch_waits_for_an_encoder_that_fails_on_every_text(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a plain paper cannot be encoded either, no query gets a problem; the log names the query."""
    monkeypatch.setattr("service.batches.jobs.MAX_ATTEMPTS", 4)
    broken = Refusing(hashing, word="")
    with served(data, broken, monkeypatch) as client, capture_logs() as logs:
        path = client.post("/v1/batches", json={"queries": [{"query": PASTED}]}).headers["Location"]
        soon(lambda: broken.n_given > 8)  # from the third attempt on, a plain paper too
        assert ("running", 0) == tuple(client.get(path).json()[name] for name in ("state", "done"))
        soon(lambda: "batches" in degraded(client))
        broken.word = "POISON"
        assert ("done", 0) == tuple(finished(client, path)[name] for name in ("state", "problems"))
    assert {0} == {each["query"] for each in logs if each["event"] == "batch_query_failed"}


def test_an_interrupted_batch_goes_on_at_the_next_start(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that a service leaves is finished by the next one, without waiting for its leases to lapse."""
    endless = Timings(patience_s=60.0, lease_s=1e6)
    with monkeypatch.context() as held, batching(data, timings=endless) as client:
        hold(held)
        path = client.post("/v1/batches", json={"seeds": IDS[:51], "limit": 1}).headers["Location"]
        soon(lambda: client.get(path).json()["state"] != "queued")
    with batching(data) as client:
        assert ("done", 51) == (finished(client, path)["state"], len(lines(client, path)))


def test_a_batch_keeps_its_generation(
    data: Path, hashing: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generation published while a batch waits shows in searches but not in the batch's results."""
    with batching(data, timings=PATIENT) as client:
        with monkeypatch.context() as held:
            hold(held)
            seeds = [*IDS[:50], "p0"]
            path = client.post("/v1/batches", json={"seeds": seeds, "limit": 1}).headers["Location"]
            build_quietly(write_corpus(tmp_path / "more.jsonl", many_papers(3)), data, hashing)
            soon(lambda: client.get("/readyz").json()["generation"] != "000001")
        batch = finished(client, path)
        assert ("done", 1, "000001") == (batch["state"], batch["problems"], batch["generation"])
        assert {"000001"} == {line["generation"] for line in lines(client, path)[:-1]}
        assert "000001" != single(client, {"query": {"paper_id": "p0"}})["generation"]


def writing_client_of(data: Path) -> TestClient:
    """Return a client of a service with the collection's models, so that it accepts papers."""
    engine = SearchEngine(open_snapshot(data), lambda: annotated(load_encoder("hashing")), n_candidates=50)
    return client_of(data, engine, device="cpu", keyless="write", keep=1, timings=PATIENT)


def test_what_waiting_batches_need_is_not_cleared_away(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generations of waiting batches are kept across publications and restarts, until these are done."""

    def publish(client: TestClient, number: int) -> None:
        paper = {"id": f"n{number}", "title": "New", "abstract": f"The number is {number}. It is new."}
        # On a busy machine it may not be searchable by the time of the answer.
        client.post("/v1/papers?wait=true", json={"papers": [paper]}).raise_for_status()
        soon(lambda: client.get(f"/v1/papers/n{number}").is_success)

    paths = []
    with monkeypatch.context() as held:
        hold(held)
        with writing_client_of(data) as client:
            for number in range(3):
                if number < 2:
                    started = client.post("/v1/batches", json={"seeds": IDS[:3], "limit": 1})
                    paths.append(started.headers["Location"])
                publish(client, number)
        with writing_client_of(data) as client:
            publish(client, 3)
    with writing_client_of(data) as client:
        for path, generation in zip(paths, ("000001", "000002"), strict=True):
            assert ("done", generation) == tuple(
                finished(client, path)[name] for name in ("state", "generation")
            )
        numbers = count(4)
        gc.collect()  # until then, the stopped services hold their generations open

        def is_cleared() -> bool:
            """Publish a paper, and return whether the generations of the batches are removed."""
            publish(client, next(numbers))
            return not {"000001", "000002"} & set(DataFolder(data).generations())

        soon(is_cleared)


def test_commands_keep_what_a_batch_needs_while_no_service_runs(
    data: Path, hashing: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands keep the generation of a batch that waits for a service, unless it has waited for days."""
    with monkeypatch.context() as held, batching(data, timings=PATIENT) as client:
        hold(held)
        path = client.post("/v1/batches", json={"seeds": IDS[:3], "limit": 1}).headers["Location"]
    del client
    gc.collect()  # until then, the stopped service holds the generation open
    build_quietly(write_corpus(tmp_path / "more.jsonl", many_papers(3)), data, hashing)
    assert [] == remove_old_generations(data, keep=1)
    needed = DataFolder(data).needed / "000001"
    os.utime(needed, (0, 0))
    assert [] == DataFolder(data).needed_generations()
    leases = GenerationLeases(data)  # the days count from the last look of a service
    leases.keep("000001")
    leases.release()
    assert ["000001"] == DataFolder(data).needed_generations()
    with batching(data) as client:
        assert "done" == finished(client, path)["state"]
        soon(lambda: not needed.exists())
    gc.collect()
    assert ["000001"] == remove_old_generations(data, keep=1)


def test_a_generation_that_is_gone_fails_the_batch(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch whose generation is gone fails; it is never answered from another generation."""
    with monkeypatch.context() as held, batching(data, timings=PATIENT) as client:
        hold(held)
        path = client.post("/v1/batches", json={"seeds": IDS}).headers["Location"]
    with sqlite3.connect(data / CATALOG_FILE) as catalog:
        catalog.execute("UPDATE jobs SET generation = '000000'")
    catalog.close()
    with capture_logs() as logs, batching(data) as client:
        failed = finished(client, path)
        assert "failed" == failed["state"]
        assert failed["error"].startswith("Generation 000000 no longer exists")
    assert ["Generation 000000 was removed."] == [
        each["error"] for each in logs if each["event"] == "generation_gone"
    ]


def degraded(client: TestClient) -> set[str]:
    """Return the parts that the service reports as degraded."""
    return {each["part"] for each in client.get("/readyz").json().get("degraded", ())}


def test_a_database_that_is_away(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its database, batches get 503 with Retry-After and searches go on; then the batch is done."""
    path = client.post("/v1/batches", json={"seeds": IDS[:60], "limit": 1}).headers["Location"]

    def away(*_: object) -> None:
        raise StorageError("the catalog is away; come again")

    with monkeypatch.context() as broken:
        broken.setattr("indexer.catalog.database.Database.reading", away)
        broken.setattr("indexer.catalog.database.Database.writing", away)
        for answer in (
            client.get(path),
            client.post("/v1/batches", json={"seeds": IDS}),
            client.delete(path),
        ):
            assert (503, "5") == (answer.status_code, answer.headers["Retry-After"])
        assert 200 == client.post("/v1/search", json={"query": {"paper_id": IDS[0]}}).status_code
        soon(lambda: "batches" in degraded(client))
    assert ("done", 60) == (finished(client, path)["state"], len(lines(client, path)))


def test_as_many_conflicts_are_taken_as_the_schema_says(client: TestClient) -> None:
    """A match batch may have the most conflicts of its schema; with one more it is not valid."""
    conflicts = [{"submission": 0, "profile": "a"}] * MAX_CONFLICTS
    started = client.post("/v1/batches", json={"match": MATCH | {"conflicts": conflicts}})
    assert 202 == started.status_code, started.text
    client.delete(started.headers["Location"])
    refused = client.post("/v1/batches", json={"match": MATCH | {"conflicts": [*conflicts, conflicts[0]]}})
    assert 422 == refused.status_code


def test_large_bodies_are_taken_here_alone(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only batches accept larger bodies than other routes, up to another bound."""
    hold(monkeypatch)
    large = {"queries": [{"query": {"title": "a", "abstract": "Much. " * 15_000}}] * 30}
    assert len(json.dumps(large)) > 2_000_000
    started = client.post("/v1/batches", json=large)
    assert 202 == started.status_code
    client.delete(started.headers["Location"])
    blank = {"Content-Type": "application/json"}
    too_large = b" " * (MAX_BATCH_BYTES + 1)
    assert 413 == client.post("/v1/batches", content=too_large, headers=blank).status_code
    assert 413 == client.post("/v1/search", json=large).status_code


def serves(client: TestClient, generation: str) -> bool:
    """Return whether the service answers from this generation."""
    return bool(client.get("/readyz").json()["generation"] == generation)


def test_batches_that_take_turns_share_what_each_needs(
    data: Path, hashing: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matches of two generations, whose parts take turns, open each generation and look up names once."""
    made = []

    def counted(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: Any, **options: Any) -> Any:
            made.append(name)
            return make(*given, **options)

        return counting

    monkeypatch.setattr("service.collection.pinned.open_engine", counted("engine", open_engine))
    monkeypatch.setattr("service.batches.answering.Matcher", counted("matcher", Matcher))
    match = {"submissions": [{"paper_id": each} for each in IDS[:50]] * 3, "profiles": REVIEWERS, "limit": 1}
    paths = []
    with batching(data, workers=True, timings=Timings(follow_every_s=0.02)) as client:
        services: Services = client.app.state.services  # type: ignore[attr-defined]  # its own state
        for nearest in (1, 2):
            started = client.post("/v1/batches", json={"match": {**match, "nearest": nearest}})
            paths.append(started.headers["Location"])
            build_quietly(write_corpus(tmp_path / "more.jsonl", many_papers(nearest)), data, hashing)
            soon(partial(serves, client, f"00000{nearest + 1}"))
        engines = PinnedEngines(services.settings, lambda: None)
        worker = ChunkWorker(engines, services.cursors, deadline_s=60.0)
        while worker.work_one(services.batches.jobs()):
            pass
        assert ["done", "done"] == [client.get(path).json()["state"] for path in paths]
    assert ["engine", "matcher", "engine", "matcher"] == made


def test_few_generations_stay_open(hashing: Encoder, tmp_path: Path) -> None:
    """The generations used last stay open, a bounded number of them, and share their models."""
    engines = PinnedEngines(Settings(data=tmp_path / "data", device="cpu"), lambda: None)
    opened = []
    for number in range(1, MAX_OPEN + 2):
        build_quietly(write_corpus(tmp_path / "c.jsonl", many_papers(number)), tmp_path / "data", hashing)
        opened.append(engines.engine_for(f"{number:06}"))
    assert 1 == len({each.load for each in opened})
    assert opened[1:] == [engines.engine_for(f"{number:06}") for number in range(2, MAX_OPEN + 2)]
    assert engines.engine_for("000001") is not opened[0]
    engines.release()
    assert engines.engine_for("000001") is not opened[0]
    assert engines.engine_for(f"{MAX_OPEN + 1:06}") is not opened[-1]
