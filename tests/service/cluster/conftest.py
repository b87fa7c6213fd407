"""A pretended cluster, and a generation for its shards."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from tests.support.servers.pretended_ray import PretendedRay


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendedRay]:
    """Yield a pretended cluster, which services join instead of Ray."""
    with ThreadPoolExecutor(24) as threads:
        ray = PretendedRay(threads)
        monkeypatch.setattr("service.cluster.shards.connect", lambda _: ray)
        monkeypatch.setattr("service.cluster.replicas.placement_strategy", lambda _, machine: machine)
        yield ray
        for shard in ray.shards:
            shard.may_open.set()


@pytest.fixture
def manifest(hashed_data: Path) -> Manifest:
    """Return the manifest of a generation with one segment."""
    return open_snapshot(hashed_data).manifest
