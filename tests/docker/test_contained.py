"""Tests of the service, confined as in compose, and of the last stage of the CPU image in an empty folder.

With the image's own packages, and all of compose's services: tests/trials/test_containers.py.
"""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from indexer.catalog.catalog import Catalog
from service.access.api_keys import Keys, Scope
from tests.support.builds import ROOT, WHALES, collection
from tests.support.containers.contained import Machine, confinement, prefix
from tests.support.containers.images import DOCKERFILES, Image
from tests.support.containers.last_stage import run_last_stage
from tests.support.servers.patience import soon
from tests.support.servers.redis import RedisServer

pytestmark = pytest.mark.system

__all__ = ["confinement", "prefix"]
SEARCH = {"query": {"title": "", "abstract": "Whales sing."}, "limit": 1}


@pytest.fixture
def machine(prefix: Path, postgres_url: str, redis_server: RedisServer) -> Machine:
    """Return a machine with the packages of the tests instead of the image's, and a few papers."""
    for folder in map(Path, (sys.prefix, ROOT)):
        if os.geteuid() == 0 and not all(each.stat().st_mode & stat.S_IXOTH for each in folder.parents):
            pytest.skip(f"only root can enter {folder}: tests/trials/test_containers.py has a copy made")
    machine = Machine(
        prefix,
        postgres_url,
        redis_server.url,
        # Numba caches machine code next to its source, which is read-only here.
        variables={"PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"},
    )
    machine.path("/opt").mkdir()
    machine.path("/opt/akin").symlink_to(sys.prefix)
    machine.path("/var/lib").mkdir(parents=True)
    collection(prefix, n_papers=2, catalog=postgres_url).rename(machine.path("/var/lib/akin"))
    machine.make_volumes()
    return machine


@contextmanager
def serving(machine: Machine, key: str) -> Iterator[tuple["subprocess.Popen[str]", httpx.Client]]:
    """Yield the process of the running service and a client with a key."""
    process = machine.start("service", stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = next((line for line in process.stdout if line.startswith("Serving")), "")
        address = f"http://127.0.0.1:{line.partition('http://0.0.0.0:')[2].split()[0]}"
        with httpx.Client(base_url=address, headers={"X-API-Key": key}, timeout=60) as client:
            yield process, client
    finally:
        process.kill()
        process.communicate()


def test_a_service_serves_from_a_container(machine: Machine) -> None:
    """As another user with a read-only root, the service answers requests with a key until SIGTERM."""
    with Keys.open(machine.catalog_url) as keys:
        key = keys.create("admin", scope=Scope.ADMIN, expires_days=1).token
    with serving(machine, key) as (process, client):
        port = client.base_url.port or 0
        assert 401 == httpx.post(client.base_url.join("/v1/search"), json=SEARCH).status_code
        assert 202 >= client.post("/v1/papers?wait=true", json={"papers": [WHALES]}).status_code
        uid = Path(f"/proc/{process.pid}").stat().st_uid
        assert (machine.uid("service"), 0) == (uid, machine.health("service", port))
        soon(lambda: client.get("/v1/papers/whales").status_code == 200)
        answer = client.post("/v1/search", json=SEARCH).json()["results"]
        assert "whales" == answer[0]["paper"]["id"]
        process.send_signal(signal.SIGTERM)
        assert -signal.SIGTERM == process.wait(timeout=60)
    assert 1 == machine.health("service", port)
    assert [] == list(machine.path("/var/lib/akin").glob(".*"))  # home folder files are in the cache
    with Catalog.open_existing(machine.catalog_url) as catalog:
        assert 3 == catalog.count()


def test_a_process_is_what_the_image_and_compose_say(prefix: Path) -> None:
    """A process has the user, home and folder of image and compose, and no privileges."""
    machine = Machine(prefix, "", "")
    machine.make_volumes()
    lines = ["id --user", "id --groups", "echo $HOME", "pwd", "grep -E '^(Cap|NoNewPrivs)' /proc/self/status"]
    done = machine.run("service", ["sh", "-c", "; ".join(lines)])
    user, groups, home, folder, *status = done.stdout.splitlines()
    assert str(machine.path("/var/lib/akin")) == home == folder
    named = dict(line.split(":\t") for line in status)
    assert {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs"} == set(named)
    assert "1" == named.pop("NoNewPrivs")
    assert {0} == {int(each, 16) for each in named.values()}
    if os.geteuid() == 0:
        assert ("10001", "10001") == (user, groups)


# Standard library modules without byte code, except its tests, as the user of the image sees them.
_WITHOUT_BYTE_CODE = """
import importlib.util, pathlib, re, sysconfig
library = pathlib.Path(sysconfig.get_path("stdlib"))
modules = [path for path in library.rglob("*.py") if not re.search("/tests?/|/site-packages/", str(path))]
compiled = [path for path in modules if pathlib.Path(importlib.util.cache_from_source(path)).exists()]
print(len(modules) > 500, [str(path) for path in modules if path not in compiled])
"""


def test_the_last_stage_makes_the_user_and_its_home(confinement: None, tmp_path: Path) -> None:
    """The last stage makes the user and its data folder, and the standard library is compiled."""
    image = Image(DOCKERFILES[0])
    user, group = image.one("USER").value.split(":")
    as_user = f"setpriv --reuid={user} --regid={group} --clear-groups --bounding-set=-all --inh-caps=-all"
    further = [
        f"getent passwd {user}",
        f"getent group {group}",
        "stat --format='%u:%g %a' /var/lib/akin",
        f"{as_user} touch /var/lib/akin/new",
        f"{as_user} touch /usr/new 2>&1 || true",
        f"{as_user} python3 -c '{_WITHOUT_BYTE_CODE}'",
    ]
    passwd, named, folder, refused, compiled = run_last_stage(DOCKERFILES[0], tmp_path, further).splitlines()
    home = image.environment["HOME"]
    assert f"akin:x:{user}:{group}::{home}:/usr/sbin/nologin" == passwd
    assert f"akin:x:{group}:" == named
    assert (image.one("WORKDIR").value, f"{user}:{group} 750") == (home, folder)
    assert "Permission denied" in refused
    assert "True []" == compiled


@pytest.mark.parametrize(
    ("place", "writable"), [("/var/lib/akin", True), ("/var/cache/akin", True), ("/opt", False)]
)
def test_only_the_volumes_can_be_written_to(prefix: Path, place: str, writable: bool) -> None:
    """Only the volumes are writable, whoever owns a folder."""
    machine = Machine(prefix, "", "")
    machine.path(place).mkdir(parents=True)
    machine.path(place).chmod(0o777)
    machine.make_volumes()
    done = machine.run("service", ["touch", str(machine.path(place) / "new")])
    assert (writable, writable) == (done.returncode == 0, (machine.path(place) / "new").exists())
    if not writable:
        assert "Read-only file system" in done.stderr
