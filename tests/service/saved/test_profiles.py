"""Tests of saved profiles: in SQLite and PostgreSQL, over HTTP, in matches and in batches."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copytree
from threading import Event
from typing import Any

import pytest
from fastapi.testclient import TestClient

from indexer.catalog.catalog import Catalog
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.errors import InputError, KeyRefusedError, OverloadedError, ProfileNotFoundError, QueryError
from models.types import Paper
from service.access.api_keys import Keys, Scope
from service.access.queue import Admission
from service.api.services import services_of
from service.match.query import Profile
from service.saved.profiles import Profiles
from service.search.engine import SearchEngine
from service.timings import Timings
from tests.support.annotators import hashing_annotator
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.clients import client_of, python_client

ADA = Profile("ada", ("p1", "p2"), 3, ("p9",))
OFTEN = Timings(follow_every_s=0.02, publish_every_s=0.05)
FLOODS = [f"demo:p03-m0{number}" for number in range(4)]


@pytest.fixture
def profiles(catalog_place: str | Path) -> Iterator[Profiles]:
    """Yield the profiles of an empty catalog."""
    with Profiles.open(catalog_place) as profiles:
        yield profiles


def test_a_profile_is_kept_replaced_and_forgotten(profiles: Profiles) -> None:
    """A profile can be saved, replaced and deleted, separately for each owner."""
    assert profiles.put(ADA, owner="me")
    assert profiles.put(Profile("ada", ("p5",)), owner="you")
    assert not profiles.put(Profile("ada", ("p3",)), owner="me")
    assert [Profile("ada", ("p3",))] == profiles.named(["ada"], owner="me", most_papers=9)
    assert not profiles.put(ADA, owner="me")
    assert [ADA, ADA] == profiles.named(["ada", "ada"], owner="me", most_papers=9)
    profiles.remove("ada", owner="me")
    profiles.remove("ada", owner="me")
    with pytest.raises(ProfileNotFoundError, match="1 of the named profiles are unknown"):
        profiles.named(["ada"], owner="me", most_papers=9)
    assert [Profile("ada", ("p5",))] == profiles.named(["ada"], owner="you", most_papers=9)


def test_nothing_is_saved_for_a_revoked_key(catalog_place: str | Path) -> None:
    """A profile saved with a key that was just revoked is refused; nobody could delete it any more."""
    with Keys.open(catalog_place) as keys, Profiles.open(catalog_place) as profiles:
        lost, valid = (keys.create(name, scope=Scope.INGEST, expires_days=1).key.id for name in ("a", "b"))
        profiles.put(ADA, owner=lost)
        keys.revoke(lost)
        with pytest.raises(KeyRefusedError, match="was revoked, so nothing is saved"):
            profiles.put(ADA, owner=lost)
        assert not profiles.summaries(owner=lost, after="", limit=9)
        assert profiles.put(ADA, owner=valid)


def test_names_are_listed_in_pages(profiles: Profiles) -> None:
    """Profiles are listed in pages by name, after a given name."""
    for name in ("cy", "ada", "bo"):
        profiles.put(Profile(name, ("p1",), 1), owner="me")
    assert ["ada", "bo"] == [summary.name for summary in profiles.summaries(owner="me", after="", limit=2)]
    assert ["cy"] == [summary.name for summary in profiles.summaries(owner="me", after="bo", limit=2)]


@pytest.mark.parametrize("name", ["", " ", "a\0b", "x" * 301, "a\nb"])
def test_a_name_is_printable(profiles: Profiles, name: str) -> None:
    """A name that is too long or not printable is neither saved nor found."""
    with pytest.raises(InputError, match="printable"):
        profiles.put(Profile(name, ("p1",)), owner="me")
    with pytest.raises(ProfileNotFoundError):
        profiles.named([name], owner="me", most_papers=9)


def test_nobody_keeps_too_many(catalog_place: str | Path) -> None:
    """At the maximum, a new profile is refused but an existing one can be replaced."""
    with Profiles.open(catalog_place) as opened:
        few = Profiles(opened.database, most_of_owner=2)
        for name in ("ada", "bo", "bo"):
            few.put(Profile(name, ("p1",)), owner="me")
        with pytest.raises(InputError, match="2 profiles are saved already"):
            few.put(Profile("cy", ("p1",)), owner="me")
        few.put(Profile("cy", ("p1",)), owner="you")
        assert ["ada", "bo"] == [summary.name for summary in few.summaries(owner="me", after="", limit=9)]


def test_nobody_keeps_too_much(catalog_place: str | Path) -> None:
    """What all papers and conflicts of a caller may hold is limited, but small profiles always fit."""
    half = tuple(f"{number:0500}" for number in range(1_100))
    with Profiles.open(catalog_place) as opened:
        small = Profiles(opened.database, most_mib=1)
        small.put(Profile("ada", half), owner="me")
        with pytest.raises(InputError, match="over 1 MiB, the limit for one caller"):
            small.put(Profile("bo", ("p1",), conflicts=half), owner="me")
        assert small.put(Profile("bo", half), owner="you")
        assert not small.put(
            Profile("ada", half[:-1], conflicts=half[:900]), owner="me"
        )  # instead of the old
        with pytest.raises(InputError, match="delete some profiles"):
            small.put(Profile("cy", half[:200]), owner="me")
        assert small.put(Profile("cy", ("p1",)), owner="me")


def test_profiles_are_read_as_far_as_their_papers_are_allowed(profiles: Profiles) -> None:
    """Profiles with too many papers or conflicts are refused before the rest of them is looked for."""
    for name in ("bo", "cy"):
        profiles.put(Profile(name, ("p1",), conflicts=("p1", "p2")), owner="me")
    unknown = [f"nobody {number}" for number in range(100)]
    with pytest.raises(QueryError, match="more than 3 conflicts"):
        profiles.named(["bo", "cy", *unknown], owner="me", most_papers=3)
    assert 2 == len(profiles.named(["bo", "cy"], owner="me", most_papers=4))
    plain = profiles.named(["bo", "cy"], owner="me", most_papers=2, with_conflicts=False)
    assert [Profile("bo", ("p1",)), Profile("cy", ("p1",))] == plain


@pytest.fixture
def client(hashed_data: Path, tmp_path: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus with a writable catalog."""
    data = Path(copytree(hashed_data, tmp_path / "data"))
    with client_of(data, device="cpu") as client:
        yield client


def put(client: TestClient, name: str, **body: Any) -> Any:
    """Return the answer to saving a profile."""
    return client.put(f"/v1/profiles/{name}", json=body)


def test_over_http(client: TestClient) -> None:
    """Saving keeps the ids of papers, and unknown ones as given; names may be in any form of Unicode."""
    assert 404 == client.get("/v1/profiles/ada").status_code
    assert {"profiles": [], "next_after": None} == client.get("/v1/profiles").json()
    made = put(client, "~Ada/1", papers=[*FLOODS, "none"], quota=2)
    assert (201, ["none"]) == (made.status_code, made.json()["unresolved"])
    kept = client.get("/v1/profiles/~Ada/1").json()
    assert ([*FLOODS, "none"], ["none"]) == (kept["papers"], kept["unresolved"])
    assert 200 == put(client, "~Ada/1", papers=FLOODS, quota=2).status_code
    kept = client.get("/v1/profiles/~Ada/1").json()
    assert (FLOODS, 2, []) == (kept["papers"], kept["quota"], kept["conflicts"])
    assert [{"name": "~Ada/1", "quota": 2}] == client.get("/v1/profiles").json()["profiles"]
    assert 422 == put(client, "bo", papers=["none"]).status_code
    assert 422 == put(client, "bo", papers=[]).status_code
    assert [204, 204] == [client.delete("/v1/profiles/~Ada/1").status_code for _ in range(2)]
    assert 404 == client.get("/v1/profiles/~Ada/1").status_code
    assert [422, 422] == [
        client.put(f"/v1/profiles/a%{byte}b", json={"papers": FLOODS}).status_code for byte in ("FF", "FE")
    ]
    assert 201 == client.put("/v1/profiles/Jos%C3%A9", json={"papers": FLOODS}).status_code
    assert 200 == client.get("/v1/profiles/Jose%CC%81").status_code  # the accent as a separate character


def test_matches_and_batches_take_profiles_by_name(client: TestClient) -> None:
    """Saved profiles used by name have the answers of profiles given in full, conflicts included."""
    put(client, "ada", papers=FLOODS)
    put(client, "bo", papers=["demo:p01-m02"], conflicts=["demo:p03-m07"])
    submissions = [{"paper_id": "demo:p03-m07"}, {"paper_id": "demo:p03-m05"}]
    by_name = {"submissions": submissions, "profiles": [{"name": "ada"}, {"name": "bo"}]}
    given = {
        "submissions": submissions,
        "profiles": [
            {"name": "ada", "papers": FLOODS},
            {"name": "bo", "papers": ["demo:p01-m02"], "conflicts": ["demo:p03-m07"]},
        ],
    }
    answers = [client.post("/v1/match", json=body).json()["submissions"] for body in (by_name, given)]
    assert answers[0] == answers[1]
    assert [["ada"], ["ada", "bo"]] == [[each["profile"] for each in own["profiles"]] for own in answers[0]]
    put(client, "Jos\u00e9", papers=FLOODS)
    accented = by_name | {"profiles": [{"name": "Jose\u0301"}]}
    assert 200 == client.post("/v1/match", json=accented).status_code
    client.delete("/v1/profiles/Jos\u00e9")
    lost = client.post("/v1/match", json=by_name | {"profiles": [{"name": "cy"}]})
    assert (404, True) == (lost.status_code, "1 of the named profiles" in lost.text)
    python = python_client(client)
    python.put_profile("cy", ["demo:p05-m04"], quota=1)
    assert ["ada", "bo", "cy"] == [summary.name for summary in python.profiles()]
    batch = python.batch(profiles={"ada": None, "cy": None}, limit=1)
    results = list(python.batch_results(batch.id, poll_s=0.05))
    assert ["ada", "cy"] == [result.name for result in results]
    answer = results[0].answer
    assert answer is not None
    assert python.recommend(seeds=FLOODS, limit=1).results == answer.results
    python.delete_profile("cy")
    assert ["ada", "bo"] == [summary.name for summary in python.profiles()]


def test_papers_added_later_count(tmp_path: Path, hashing: Encoder) -> None:
    """Profiles that named a paper, as theirs or as a conflict, before it was added conflict with it."""
    data = tmp_path / "data"
    build_quietly(write_corpus(tmp_path / "c.jsonl", many_papers(9)), data, hashing)
    engine = SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=20)
    owls = {"id": "o/1", "title": "Owls at Night", "abstract": ["Owls hunt at night.", "We hear them."]}
    submissions = [{"paper_id": "o/1"}, {"paper_id": "p5"}]
    body = {"submissions": submissions, "profiles": [{"name": "ada"}, {"name": "bo"}]}
    with client_of(data, engine, timings=OFTEN, keyless="write", device="cpu") as client:
        put(client, "ada", papers=["p1", "Owls at night"])
        put(client, "bo", papers=["p2"], conflicts=["Owls at night"])
        added = client.post("/v1/papers?wait=true", json={"papers": [owls]})
        assert 200 == added.status_code, added.text
        answer = client.post("/v1/match", json=body).json()
        unresolved = client.get("/v1/profiles/bo").json()["unresolved"]
    assert [0, 2] == [len(each["profiles"]) for each in answer["submissions"]]
    assert [] == answer["unresolved"] == unresolved


def test_a_purge_takes_titles_from_profiles(catalog_place: str | Path) -> None:
    """A purge removes the titles of a paper from profiles that named it before it was added."""
    ada, bo = Profile("ada", ("p1", "On  Owls"), 2, ("Owls", "on owls")), Profile("bo", ("On Moss",))
    with Catalog.open(catalog_place) as catalog, Profiles.open(catalog_place) as profiles:
        for each in (ada, bo):
            profiles.put(each, owner="me")
        catalog.add([Paper("o/1", "On owls", "Owls hunt.", ())])
        catalog.purge(["o/1"])
        kept = profiles.named(["ada", "bo"], owner="me", most_papers=9)
    assert [Profile("ada", ("p1",), 2, ("Owls",)), bo] == kept


@pytest.mark.parametrize("match", [False, True])
def test_a_batch_sent_again_is_the_same_after_its_profile_changed(client: TestClient, match: bool) -> None:
    """The same key and body give the same batch, even if the profile named in it was edited or deleted."""
    put(client, "dee", papers=FLOODS)
    body: dict[str, Any] = {"profiles": [{"name": "dee"}]}
    if match:
        body = {"match": {"submissions": [{"paper_id": FLOODS[0]}], **body}}
    key = {"Idempotency-Key": f"monday-{match}"}
    started = client.post("/v1/batches", json=body, headers=key)
    assert 202 == started.status_code, started.text
    put(client, "dee", papers=FLOODS[:1])
    edited = client.post("/v1/batches", json=body, headers=key)
    client.delete("/v1/profiles/dee")
    deleted = client.post("/v1/batches", json=body, headers=key)
    for again in (edited, deleted):
        assert (202, started.json()["id"]) == (again.status_code, again.json().get("id"))
    assert 404 == client.post("/v1/batches", json=body, headers={"Idempotency-Key": "new"}).status_code


@pytest.mark.parametrize(
    ("path", "n_profiles", "match", "message"),
    [
        ("/v1/match", 2, True, "more than 5000 papers"),
        ("/v1/batches", 41, True, "more than 200000 papers"),
        ("/v1/batches", 41, False, "more than 200000 papers"),
    ],
)
def test_large_saved_profiles_are_refused_unread(
    hashed_data: Path, tmp_path: Path, path: str, n_profiles: int, match: bool, message: str
) -> None:
    """A request that names saved profiles with too many papers is refused before all of them are read."""
    data = Path(copytree(hashed_data, tmp_path / "data"))
    names = [f"reader {number}" for number in range(n_profiles)]
    with Profiles.open(data / "catalog.sqlite3") as profiles:
        for name in names:
            profiles.put(Profile(name, tuple(f"p{number}" for number in range(5_000))), owner="")
    given = [{"name": name} for name in (*names, *(f"nobody {number}" for number in range(60)))]
    body: dict[str, Any] = {"profiles": given}
    if match:
        body["submissions"] = [{"paper_id": FLOODS[0]}]
    with client_of(data, device="cpu") as client:
        refused = client.post(path, json={"match": body} if match and path == "/v1/batches" else body)
    assert (422, True) == (refused.status_code, message in refused.text)


def test_profiles_are_deleted_with_their_key(catalog_place: str | Path) -> None:
    """Once a key is revoked, nobody could delete its profiles, so they are deleted; those of others stay."""
    with Keys.open(catalog_place) as keys, Profiles.open(catalog_place) as profiles:
        mine, yours = (keys.create(name, scope=Scope.READ, expires_days=1).key.id for name in ("me", "you"))
        for owner in (mine, yours, ""):
            profiles.put(ADA, owner=owner)
        keys.revoke("me")
        n_left = [len(profiles.summaries(owner=owner, after="", limit=9)) for owner in (mine, yours, "")]
        assert [0, 1, 1] == n_left


def test_a_match_that_waits_for_the_database_stops_no_search(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the database is silent, a match with saved profiles takes no place of those that compute.

    A match without any takes no place of those that use the database.
    """
    put(client, "ada", papers=FLOODS)
    silent, reading = Event(), Event()
    named = Profiles.named

    def after_silence(store: Profiles, *given: Any, **named_given: Any) -> Any:
        reading.set()
        assert silent.wait(60)
        return named(store, *given, **named_given)

    monkeypatch.setattr(Profiles, "named", after_silence)
    body = {"submissions": [{"paper_id": FLOODS[0]}], "profiles": [{"name": "ada"}]}
    with ThreadPoolExecutor(1) as pool:
        match = pool.submit(client.post, "/v1/match", json=body)
        assert reading.wait(60)
        try:
            queues = services_of(client.app).queues  # type: ignore[arg-type]  # TestClient.app is the application
            assert (0, 1) == (queues.computing.running, queues.storing.running)
            search = client.post("/v1/search", json={"query": {"paper_id": FLOODS[0]}})
            assert (200, False) == (search.status_code, match.done())
            room_for = Admission.expect_room

            def expect_room(admission: Admission, within_s: float) -> None:
                if admission is queues.storing:
                    raise OverloadedError("All places of the database are taken", retry_after_s=1)
                room_for(admission, within_s)

            monkeypatch.setattr(Admission, "expect_room", expect_room)
            papers = {**body, "profiles": [{"name": "grace", "papers": FLOODS}]}
            assert 200 == client.post("/v1/match", json=papers).status_code
            assert 503 == client.post("/v1/match", json=body).status_code
        finally:
            silent.set()
        assert 200 == match.result().status_code


def test_profiles_belong_to_keys(hashed_data: Path, tmp_path: Path) -> None:
    """Another key can neither see a profile nor match with it."""
    data = Path(copytree(hashed_data, tmp_path / "data"))
    with Keys.open(data / "catalog.sqlite3") as keys:
        made = [
            {"Authorization": f"Bearer {keys.create(name, scope=Scope.READ, expires_days=1).token}"}
            for name in ("me", "you")
        ]
    with client_of(data, device="cpu") as client:
        body = {"papers": FLOODS}
        assert 201 == client.put("/v1/profiles/ada", json=body, headers=made[0]).status_code
        assert 200 == client.get("/v1/profiles/ada", headers=made[0]).status_code
        assert 404 == client.get("/v1/profiles/ada", headers=made[1]).status_code
        request = {"submissions": [{"paper_id": FLOODS[0]}], "profiles": [{"name": "ada"}]}
        assert 200 == client.post("/v1/match", json=request, headers=made[0]).status_code
        assert 404 == client.post("/v1/match", json=request, headers=made[1]).status_code
