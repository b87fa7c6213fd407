"""Tests of new generations while a shard is away, which wait for it and no longer."""

import os
from pathlib import Path
from shutil import copytree

import pytest

from indexer.files.data_folder import DataFolder
from indexer.snapshot.folder import current_generation
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.errors import ShardAwayError
from service.collection.generations import Engines
from service.search.engine import SearchEngine
from tests.support.annotators import hashing_annotator


def test_a_generation_that_waited_for_a_shard_is_opened_when_that_is_back(
    hashed_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiting generation is opened as soon as the shard is back, and is not retried before."""
    data = Path(copytree(hashed_data, tmp_path / "data"))
    opened: list[bool] = []
    away = False

    def reopen(generation: str | None, beside: SearchEngine) -> SearchEngine:
        opened.append(away)
        if away:
            raise ShardAwayError("A shard does not answer.")
        return SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=20)

    first = SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=20)
    engines = Engines(first, data, reopen=reopen, clock=lambda: 0.0)
    monkeypatch.setattr(Snapshot, "away", property(lambda _: noticed))
    os.utime(DataFolder(data).manifest(current_generation(data)), ns=(1, 1))
    away, noticed = True, frozenset[int]()
    for noticed in (frozenset[int](), frozenset({0}), frozenset({0})):  # noqa: B007 - ``Snapshot.away`` reads it
        with pytest.raises(ShardAwayError):
            engines.follow()
    monkeypatch.undo()
    away = False
    assert engines.follow()
    assert [True, False] == opened
    assert engines.current is not first
