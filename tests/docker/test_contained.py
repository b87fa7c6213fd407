"""The lines of the CPU image in an empty folder, and its service confined as compose does it.

With compiled loops, more of compose's services and the CUDA image: tests/trials/test_containers.py.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from indexer.catalog.catalog import Catalog
from tests.support.builds import WHALES, many_papers, write_corpus
from tests.support.containers.build import QUICK, QUICK_BUILD, build, placed
from tests.support.containers.contained import Machine, confinement, prefix
from tests.support.containers.images import DOCKERFILES, Image, stages
from tests.support.containers.last_stage import run_last_stage
from tests.support.servers.patience import soon
from tests.support.servers.redis import RedisServer

__all__ = ["confinement", "prefix"]
SEARCH = {"query": {"title": "", "abstract": "Whales sing."}, "limit": 1}
BATCH = {"seeds": ["whales"], "limit": 3}
PYTHON = "python:{}.{}.".format(*sys.version_info)


@pytest.fixture
def machine(prefix: Path, postgres_url: str, redis_server: RedisServer) -> Machine:
    """A machine with what the first stage of the CPU image makes, and a corpus."""
    build(DOCKERFILES[0], prefix, {**QUICK_BUILD, **QUICK})
    machine = Machine(
        prefix,
        postgres_url,
        redis_server.url,
        variables={name: placed(value, prefix) for name, value in QUICK.items()},
        settings={"INDEX_OPTIONS": "--encoder hashing"},
    )
    machine.make_volumes()
    machine.path("/corpus").mkdir(exist_ok=True)
    write_corpus(machine.path("/corpus/papers.jsonl"), many_papers(10))
    return machine


@contextmanager
def serving(machine: Machine, key: str) -> Iterator[tuple["subprocess.Popen[str]", httpx.Client]]:
    """The service, once it serves, and a client of it with a key."""
    with running(machine, "service", "Serving") as (process, line):
        address = line.partition("http://0.0.0.0:")[2].split()[0]
        with httpx.Client(
            base_url=f"http://127.0.0.1:{address}", headers={"X-API-Key": key}, timeout=60
        ) as client:
            yield process, client


@contextmanager
def running(machine: Machine, name: str, ready: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A service of the compose file, once it says that it is ready, and how it says so."""
    process = machine.start(name, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process, next((line for line in process.stdout if line.startswith(ready)), "")
    finally:
        process.kill()
        process.communicate()


def ended(process: "subprocess.Popen[str]") -> int:
    """The exit status after SIGTERM."""
    process.send_signal(signal.SIGTERM)
    return process.wait(timeout=60)


@pytest.mark.skipif(
    not stages(DOCKERFILES[0])[0][0].value.startswith(PYTHON), reason="the image has another Python"
)
@pytest.mark.timeout(900)  # half a gigabyte is downloaded where uv has not kept it
def test_a_service_ends_and_starts_again_without_a_loss(machine: Machine) -> None:
    """As another user, over a read-only root: it answers whoever has a key, before and after a SIGTERM.

    A worker does its batches. It answers, too, where its home, which is the data folder, is read-only.
    """
    check = ["/opt/uv/bin/uv", "pip", "check", "--python", "/opt/akin/bin/python3"]
    subprocess.run([placed(word, machine.prefix) for word in check], check=True)
    made, indexed = machine.run("keys"), machine.run("indexer")
    assert (0, 0) == (made.returncode, indexed.returncode), made.stderr + indexed.stderr
    key = made.stdout.strip()
    with serving(machine, key) as (process, client):
        port = client.base_url.port or 0
        assert 401 == httpx.post(client.base_url.join("/v1/search"), json=SEARCH).status_code
        assert 202 >= client.post("/v1/papers?wait=true", json={"papers": [WHALES]}).status_code
        uid = Path(f"/proc/{process.pid}").stat().st_uid
        assert (machine.uid("service"), 0) == (uid, machine.health("service", port))
        soon(lambda: client.get("/v1/papers/whales").status_code == 200)
        answer = client.post("/v1/search", json=SEARCH).json()["results"]
        assert "whales" == answer[0]["paper"]["id"]
        with running(machine, "worker", "Working") as (worker, _):
            batch = client.post("/v1/batches", json=BATCH).headers["Location"]
            soon(lambda: client.get(batch).json()["state"] == "done")
            assert 0 == ended(worker)
        results = client.get(f"{batch}/results").content
        assert -signal.SIGTERM == ended(process)
    assert 1 == machine.health("service", port)
    assert [] == list(machine.path("/var/lib/akin").glob(".*"))  # what is kept in a home is in the cache
    secret = {"AKIN_SECRET": "s" * 32}
    only_reads = replace(machine, read_only=["/var/lib/akin"], variables={**machine.variables, **secret})
    for each in (machine, only_reads):
        with serving(each, key) as (_, client):
            assert 0 == each.health("service", client.base_url.port or 0)
            assert answer == client.post("/v1/search", json=SEARCH).json()["results"]
            assert results == client.get(f"{batch}/results").content
    with Catalog.open_existing(machine.catalog_url) as catalog:
        assert 11 == catalog.count()


def test_a_process_is_what_the_image_and_compose_say(prefix: Path) -> None:
    """Its user, home and folder; no privileges, and no way to any; of this machine no other home."""
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


# Of the standard library without its tests, as its user may read it.
_WITHOUT_BYTE_CODE = """
import importlib.util, pathlib, re, sysconfig
library = pathlib.Path(sysconfig.get_path("stdlib"))
modules = [path for path in library.rglob("*.py") if not re.search("/tests?/|/site-packages/", str(path))]
compiled = [path for path in modules if pathlib.Path(importlib.util.cache_from_source(path)).exists()]
print(len(modules) > 500, [str(path) for path in modules if path not in compiled])
"""


def test_the_last_stage_makes_the_user_and_its_home(confinement: None, tmp_path: Path) -> None:
    """Who owns the data folder, whose home it is, and finds Python's own library compiled."""
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
    """Nothing else, whoever owns it: what a process finds is what the image holds."""
    machine = Machine(prefix, "", "")
    machine.path(place).mkdir(parents=True)
    machine.path(place).chmod(0o777)
    machine.make_volumes()
    done = machine.run("service", ["touch", str(machine.path(place) / "new")])
    assert (writable, writable) == (done.returncode == 0, (machine.path(place) / "new").exists())
    if not writable:
        assert "Read-only file system" in done.stderr
