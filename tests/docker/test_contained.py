"""The compose file's own command lines, confined as containers are, over PostgreSQL and Redis: a sample.

The whole of it, with an environment installed from the lock, is in tests/trials/test_containers.py.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copy2, copytree

import httpx
import pytest
from numba.core.caching import UserProvidedCacheLocator

import models.transport
from indexer.catalog.catalog import Catalog
from indexer.index.backends import nearest
from service.access.api_keys import Keys, Scope
from service.resolve import near_ids
from tests.support.annotators import hashing_annotator
from tests.support.builds import ROOT, WHALES, collection
from tests.support.containers.contained import Machine, confinement, prefix
from tests.support.containers.images import DOCKERFILES, Image
from tests.support.servers.patience import soon
from tests.support.servers.processes import AKIN_WITHOUT_WEIGHTS
from tests.support.servers.redis import RedisServer

__all__ = ["confinement", "prefix"]
SEARCH = {"query": {"title": "", "abstract": "Whales sing."}, "limit": 1}


@pytest.fixture
def machine(prefix: Path, tmp_path: Path, postgres_url: str, redis_server: RedisServer) -> Machine:
    """A machine with a collection in its data volume and the compiled loops of this one in its cache."""
    machine = Machine(
        prefix,
        postgres_url,
        redis_server.url,
        [sys.executable, *AKIN_WITHOUT_WEIGHTS],
        variables={"NUMBA_CPU_FEATURES": None, "NUMBA_CPU_NAME": None, "PYTHONPATH": str(ROOT)},
    )
    made = collection(tmp_path, n_papers=10, catalog=postgres_url, annotator=hashing_annotator())
    copytree(made, machine.path("/var/lib/akin"))
    for source in (models.transport, nearest, near_ids):
        subpath = UserProvidedCacheLocator.get_suitable_cache_subpath(file := str(source.__file__))
        kept = machine.path("/var/cache/akin/numba") / subpath
        kept.mkdir(parents=True)
        for compiled in (Path(file).parent / "__pycache__").glob("*.nb?"):
            copy2(compiled, kept)
    machine.make_volumes()
    return machine


@contextmanager
def serving(machine: Machine) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """The service, once it serves, and its port."""
    process = machine.start("service", stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = next((line for line in process.stdout if line.startswith("Serving")), "")
        assert "http://0.0.0.0:" in line
        yield process, int(line.split("http://0.0.0.0:")[1].split()[0])
    finally:
        process.kill()
        process.communicate()


def test_a_service_ends_and_starts_again_without_a_loss(machine: Machine) -> None:
    """As another user, over a read-only root: it answers whoever has a key, before and after a SIGTERM."""
    with Keys.open(machine.catalog_url) as keys:
        token = keys.create("an admin", scope=Scope.ADMIN, expires_days=None).token
    key = {"X-API-Key": token}
    with serving(machine) as (process, port), httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        assert 401 == client.post("/v1/search", json=SEARCH).status_code
        added = client.post("/v1/papers?wait=true", json={"papers": [WHALES]}, headers=key, timeout=60)
        assert 202 >= added.status_code
        uid = Path(f"/proc/{process.pid}").stat().st_uid
        assert (machine.uid("service"), 0) == (uid, is_ready(machine, port))
        soon(lambda: client.get("/v1/papers/whales", headers=key).status_code == 200)
        answer = client.post("/v1/search", json=SEARCH, headers=key).json()["results"]
        assert "whales" == answer[0]["paper"]["id"]
        process.send_signal(signal.SIGTERM)
        assert -signal.SIGTERM == process.wait(timeout=60)
    assert 0 != is_ready(machine, port)
    with serving(machine) as (_, port), httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        assert 0 == is_ready(machine, port)
        assert answer == client.post("/v1/search", json=SEARCH, headers=key).json()["results"]
    with Catalog.open_existing(machine.catalog_url) as catalog:
        assert 11 == catalog.count()


def is_ready(machine: Machine, port: int) -> int:
    """The exit status of the image's health check."""
    program, *arguments = Image(DOCKERFILES[0]).healthcheck
    assert "python3" == program
    ask = [machine.program[0], *arguments]
    return subprocess.run(
        ask, env={"AKIN_PORT": str(port)}, stderr=subprocess.DEVNULL, check=False
    ).returncode


@pytest.mark.parametrize(
    ("place", "writable"), [("/var/lib/akin", True), ("/var/cache/akin", True), ("/opt", False)]
)
def test_only_the_volumes_can_be_written_to(prefix: Path, place: str, writable: bool) -> None:
    """Nothing else, whoever owns it: what a process finds is what the image holds."""
    machine = Machine(prefix, "", "", [])
    machine.path(place).mkdir(parents=True)
    machine.path(place).chmod(0o777)
    machine.make_volumes()
    done = machine.run("service", ["touch", str(machine.path(place) / "new")])
    assert (writable, writable) == (done.returncode == 0, (machine.path(place) / "new").exists())
    if not writable:
        assert "Read-only file system" in done.stderr
