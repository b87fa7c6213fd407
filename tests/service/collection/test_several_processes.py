"""Tests of several processes that serve one collection, and of services without their database."""

from pathlib import Path

import httpx
import pytest

from service.access.api_keys import Keys, Scope
from service.app import create_app
from service.collection.generations import open_engine
from service.settings import Settings
from service.timings import Timings
from tests.support.builds import WHALES, collection
from tests.support.servers.loopback import served
from tests.support.servers.patience import soon
from tests.support.servers.postgres import Server
from tests.support.servers.processes import AKIN_WITHOUT_WEIGHTS, service_process

N_PAPERS = 10
OFTEN = Timings(follow_every_s=0.05, publish_every_s=0.1, keys_refresh_s=0.1)


def wait_until(status: int, client: httpx.Client, path: str) -> None:
    """Wait until a path answers with this status."""
    soon(lambda: client.get(path).status_code == status)


@pytest.mark.system
def test_what_one_process_is_given_all_show(tmp_path: Path) -> None:
    """A paper added to or deleted from one of two services over one folder soon shows or is gone in both."""
    data = collection(tmp_path, n_papers=N_PAPERS)
    settings = Settings(data=data, keyless="write", device="cpu")  # type: ignore[arg-type]  # made a member
    with (
        service_process(data, program=AKIN_WITHOUT_WEIGHTS) as (_, one),
        served(create_app(settings, open_engine(settings))) as address,  # in this process
        httpx.Client(base_url=address, timeout=30) as other,
    ):
        assert 202 == one.post("/v1/papers", json={"papers": [WHALES]}).status_code
        for client in (other, one):
            wait_until(200, client, "/v1/papers/whales")
        assert 204 == other.delete("/v1/papers/whales").status_code
        for client in (one, other):
            wait_until(404, client, "/v1/papers/whales")
        # Both may write at once.
        for number, client in enumerate((one, other) * 3):
            paper = {**WHALES, "id": f"w{number}"}
            assert 202 == client.post("/v1/papers", json={"papers": [paper]}).status_code
        for client in (one, other):
            for number in range(6):
                wait_until(200, client, f"/v1/papers/w{number}")
        both = {client.get("/readyz").json()["generation"] for client in (one, other)}
        assert 1 == len(both)


def test_writes_wait_for_the_database_and_searches_do_not(tmp_path: Path, own_postgres: Server) -> None:
    """While PostgreSQL is down searches go on and writes get 503; once it is back writes work again."""
    data = collection(tmp_path, n_papers=N_PAPERS, catalog=own_postgres.url)
    settings = Settings(data=data, keyless="write", device="cpu", catalog_url=own_postgres.url)  # type: ignore[arg-type]  # made secret
    search = {"query": {"title": "", "abstract": "Whales sing."}, "limit": 1}
    with (
        served(create_app(settings, open_engine(settings), timings=OFTEN)) as address,
        httpx.Client(base_url=address, timeout=30) as client,
    ):

        def degraded() -> dict[str, str]:
            return {each["part"]: each["detail"] for each in client.get("/readyz").json()["degraded"]}

        assert 202 == client.post("/v1/papers", json={"papers": [WHALES]}).status_code
        wait_until(200, client, "/v1/papers/whales")
        # This paper is accepted, but perhaps not yet shown when the database stops.
        seals = {**WHALES, "id": "seals", "title": "Seals"}
        assert 202 == client.post("/v1/papers", json={"papers": [seals]}).status_code
        own_postgres.stop()
        for _ in range(5):
            assert 200 == client.post("/v1/search", json=search).status_code
            for answer in (
                client.post("/v1/papers", json={"papers": [{**WHALES, "id": "refused"}]}),
                client.delete("/v1/papers/whales"),
            ):
                assert (503, "5") == (answer.status_code, answer.headers["Retry-After"])
        soon(lambda: "writes" in degraded())
        assert "database" in client.get("/readyz").text
        assert "503" in degraded()["writes"]
        own_postgres.start()
        wait_until(200, client, "/v1/papers/seals")
        assert client.delete("/v1/papers/whales").status_code in {202, 204}
        wait_until(404, client, "/v1/papers/whales")
        soon(lambda: "writes" not in degraded())
        assert 404 == client.get("/v1/papers/refused").status_code


def test_another_catalog_takes_no_papers(tmp_path: Path, postgres_url: str) -> None:
    """A service pointed at an empty database refuses papers, which would never show, and says so."""
    data = collection(tmp_path, n_papers=N_PAPERS)
    settings = Settings(data=data, keyless="write", device="cpu", catalog_url=postgres_url)  # type: ignore[arg-type]  # made secret
    with (
        served(create_app(settings, open_engine(settings), timings=OFTEN)) as address,
        httpx.Client(base_url=address, timeout=30) as client,
    ):
        answer = client.post("/v1/papers", json={"papers": [WHALES]})
        assert (503, True) == (answer.status_code, "AKIN_CATALOG_URL" in answer.json()["detail"])
        soon(lambda: client.get("/readyz").json()["degraded"] != [])


def test_a_service_started_without_its_database_answers_once_it_is_there(
    tmp_path: Path, own_postgres: Server
) -> None:
    """Until its database is there, a service only answers health checks; then it works without a restart."""
    data = collection(tmp_path, n_papers=N_PAPERS, catalog=own_postgres.url)
    settings = Settings(data=data, keyless="write", device="cpu", catalog_url=own_postgres.url)  # type: ignore[arg-type]  # made secret
    with Keys.open(own_postgres.url) as keys:
        token = keys.create("a reader", scope=Scope.READ, expires_days=None).token
    search = {"query": {"title": "", "abstract": "Whales sing."}, "limit": 1}
    own_postgres.stop()
    with (
        served(create_app(settings, open_engine(settings), timings=OFTEN)) as address,
        httpx.Client(base_url=address, timeout=30) as client,
    ):
        early = client.post("/v1/search", json=search, headers={"X-API-Key": token})
        assert (503, "5") == (early.status_code, early.headers["Retry-After"])
        assert "urn:akin:problem:keys-unknown" == early.json()["type"]
        assert 200 == client.get("/livez").status_code
        not_ready = client.get("/readyz")
        assert (503, True) == (not_ready.status_code, "database" in not_ready.json()["detail"])
        own_postgres.start()
        soon(lambda: client.post("/v1/search", json=search, headers={"X-API-Key": token}).status_code == 200)
        assert 401 == client.post("/v1/search", json=search).status_code
        assert "keys" not in {each["part"] for each in client.get("/readyz").json()["degraded"]}
