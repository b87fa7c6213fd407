"""Tests of batches while a shard is away: they wait for any time, and are then answered."""

from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

from models.errors import ShardAwayError
from service.batches.jobs import MAX_ATTEMPTS
from service.collection.pinned import PinnedEngines
from service.search.engine import SearchEngine
from service.search.query import SearchAnswer, SearchQuery
from tests.support.clients import client_of

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
