"""Tests of batches while a shard is away: they wait for any time, and are then answered."""

from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

from indexer.files.data_folder import DataFolder
from models.errors import DeviceFullError, ShardAwayError, StorageError, UnknownNameError, WeightsError
from service.batches.jobs import MAX_ATTEMPTS
from service.batches.worker import ChunkWorker
from service.collection.pinned import PinnedEngines
from service.match.answer import Matcher
from service.search.engine import SearchEngine
from service.search.query import SearchAnswer, SearchQuery
from service.settings import Settings
from service.timings import Timings
from tests.support.clients import client_of
from tests.support.servers.patience import soon

_MATCH = {
    "match": {
        "submissions": [{"abstract": "Graphs forecast floods."}],
        "profiles": [{"name": "ada", "papers": ["demo:p03-m02"]}],
    }
}
_BODY = {"queries": [{"query": {"text": "graphs forecast floods"}, "limit": 1}]}


def _partly(engine: SearchEngine, query: SearchQuery) -> SearchAnswer:
    return replace(_search(engine, query), coverage=0.5)


def _not_at_all(*_: object) -> SearchEngine:
    raise ShardAwayError("A shard does not answer.")


_search = SearchEngine.search


@pytest.mark.parametrize(
    ("kind", "name", "away"),
    [(SearchEngine, "search", _partly), (PinnedEngines, "engine_for", _not_at_all)],
    ids=["in a search", "in opening"],
)
def test_a_batch_waits_for_a_shard_however_long(
    hashed_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type, name: str, away: object
) -> None:
    """Looking for the shard costs no attempts, and each look ends the work until the next poll."""
    data = copytree(hashed_data, tmp_path / "data")
    with client_of(data, device="cpu", candidates=20, workers=True) as client:
        path = client.post("/v1/batches", json=_BODY).headers["Location"]
        batches = client.app.state.services.batches  # type: ignore[attr-defined]  # its own state
        with monkeypatch.context() as without:
            without.setattr(kind, name, away)
            for _ in range(MAX_ATTEMPTS + 2):
                assert not batches.worker.work_one(batches.jobs())
            assert "running" == client.get(path).json()["state"]
        assert batches.worker.work_one(batches.jobs())
        assert "done" == client.get(path).json()["state"]


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (SearchEngine, "search", DeviceFullError),
        (SearchEngine, "search", UnknownNameError),
        (PinnedEngines, "engine_for", WeightsError),
        (Matcher, "match_each", DeviceFullError),
    ],
)
def test_a_worker_without_device_or_models_spoils_no_batch(
    hashed_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type, name: str, error: type
) -> None:
    """What this process lacks costs no attempt and is no problem of a query; another worker can do it."""
    data = copytree(hashed_data, tmp_path / "data")
    body = _MATCH if kind is Matcher else _BODY
    with client_of(data, device="cpu", candidates=20, workers=True, timings=Timings(lease_s=0.05)) as client:
        path = client.post("/v1/batches", json=body).headers["Location"]
        batches = client.app.state.services.batches  # type: ignore[attr-defined]  # its own state

        def fails(*_: object) -> object:
            raise error("It is not on this machine.")

        with monkeypatch.context() as without:
            without.setattr(kind, name, fails)
            for _ in range(MAX_ATTEMPTS + 2):
                with pytest.raises(error, match="not on this machine"):
                    soon(lambda: batches.worker.work_one(batches.jobs()))
        soon(lambda: batches.worker.work_one(batches.jobs()))
        assert ("done", 0) == tuple(client.get(path).json()[each] for each in ("state", "problems"))


def test_a_worker_whose_folder_is_not_there_fails_no_batch(hashed_data: Path, tmp_path: Path) -> None:
    """Without the folder of its generation, a part waits for its lease, at no cost, and for any time."""
    data = copytree(hashed_data, tmp_path / "data")
    timings = Timings(lease_s=0.05)
    with client_of(data, device="cpu", candidates=20, workers=True, timings=timings) as client:
        path = client.post("/v1/batches", json=_BODY).headers["Location"]
        batches = client.app.state.services.batches  # type: ignore[attr-defined]  # its own state
        elsewhere = Settings(data=tmp_path / "unmounted", device="cpu", candidates=20)
        cursors = client.app.state.services.cursors  # type: ignore[attr-defined]  # its own state
        worker = ChunkWorker(PinnedEngines(elsewhere, lambda: None), cursors, deadline_s=30)
        for _ in range(MAX_ATTEMPTS + 2):
            with pytest.raises(StorageError, match="neither generation 000001 nor a newer one"):
                soon(lambda: worker.work_one(batches.jobs()))
        assert "running" == client.get(path).json()["state"]
        DataFolder(elsewhere.data).snapshot("000002").mkdir(parents=True)
        soon(lambda: worker.work_one(batches.jobs()))
        assert "no longer exists" in client.get(path).json()["error"]
