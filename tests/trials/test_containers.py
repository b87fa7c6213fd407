"""Tests of the image without an engine: its lines run in a folder, its services confined like containers.

Lines that need the image's root are left out: the user, labels, and byte code of the standard library.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement
from sqlalchemy import make_url

from tests.support.builds import DEMO_CORPUS, WHALES
from tests.support.containers.build import build
from tests.support.containers.contained import Machine, confinement, prefix
from tests.support.containers.deploy_page import commands, of_akin
from tests.support.containers.images import DOCKERFILES
from tests.support.servers.patience import soon
from tests.support.servers.postgres import find_programs
from tests.support.servers.redis import RedisServer
from tests.support.trials.settings import print_figure

CPU, CUDA = DOCKERFILES
pytestmark = pytest.mark.trial
__all__ = ["confinement", "prefix"]
IDS = [json.loads(line)["id"] for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]
BATCH = {"seeds": IDS, "facet": "method", "limit": 3}
IN_POSTGRES = ["docker", "compose", "exec", "-T", "postgres"]
SEARCH = {"query": {"paper_id": IDS[0]}, "facet": "method", "limit": 3}


def built(
    dockerfile: Path,
    prefix: Path,
    postgres_url: str,
    redis_server: RedisServer,
    profile: str,
    **settings: str,
) -> Machine:
    """Return a machine with the image as its first stage makes it, and volumes as an engine makes them."""
    build(dockerfile, prefix)
    machine = Machine(prefix, postgres_url, redis_server.url, profile=profile, settings=settings)
    machine.make_volumes()
    return machine


@contextmanager
def running(machine: Machine, name: str, ready: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Yield a service once it is ready, and the line that says so."""
    process = machine.start(name, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process, next((line for line in process.stdout if line.startswith(ready)), "")
    finally:
        process.kill()
        process.communicate()


@contextmanager
def serving(
    machine: Machine, key: str, name: str = "service"
) -> Iterator[tuple["subprocess.Popen[str]", httpx.Client]]:
    """Yield the service's process and a client with a key."""
    started = time.monotonic()
    with running(machine, name, "Serving") as (process, line):
        print_figure(f"ready after {time.monotonic() - started:.1f} s")
        port = line.split("http://0.0.0.0:")[1].split()[0]
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"X-API-Key": key}, timeout=60
        ) as client:
            assert 0 == machine.health(name, int(port))
            yield process, client


def ended(*processes: "subprocess.Popen[str]") -> list[int]:
    """Send SIGTERM to all processes, and return their exit statuses."""
    for process in processes:
        process.send_signal(signal.SIGTERM)
    return [process.wait(timeout=60) for process in processes]


def redis_hits(client: httpx.Client) -> float:
    """Return the number of answers that a service has found in Redis."""
    found = re.search(
        r'akin_cache_lookups_total\{layer="redis",outcome="hits"\} (\S+)', client.get("/metrics").text
    )
    assert found
    return float(found[1])


def packages_checked(machine: Machine) -> "subprocess.CompletedProcess[str]":
    """Run ``uv pip check`` on the packages of the image."""
    command = [
        machine.path("/opt/uv/bin/uv"),
        "pip",
        "check",
        "--python",
        machine.path("/opt/akin/bin/python3"),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def compiled(machine: Machine) -> dict[str, int]:
    """Return the modification times of the files of machine code."""
    folder = machine.path("/var/cache/akin/numba")
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_what_compose_does(prefix: Path, postgres_url: str, redis_server: RedisServer) -> None:
    """Compose's demo services lose nothing by SIGTERM, nor by restoring a backup."""
    machine = built(CPU, prefix, postgres_url, redis_server, "demo")
    assert 0 == packages_checked(machine).returncode
    before = compiled(machine)
    assert before
    refused = machine.run("service")
    assert (1, True) == (refused.returncode, "akin keys create" in refused.stderr), refused.stderr
    made, again = machine.run("keys"), machine.run("keys")
    assert (0, 0, "") == (made.returncode, again.returncode, again.stdout), made.stderr
    key = made.stdout.strip()
    indexed = machine.run("indexer-demo")
    assert (0, True) == (indexed.returncode, "Indexed 100 papers" in indexed.stdout), indexed.stderr
    assert "the collection exists" in machine.run("indexer-demo").stdout
    with serving(machine, key) as (one, first), serving(machine, key) as (two, second):
        assert 202 >= first.post("/v1/papers?wait=true", json={"papers": [WHALES]}).status_code
        for client in (first, second):
            soon(lambda client=client: client.get("/v1/papers/whales").status_code == 200)
        answer = first.post("/v1/search", json=SEARCH).json()["results"]
        hits = redis_hits(second)
        assert answer == second.post("/v1/search", json=SEARCH).json()["results"]
        # The other service computed it, and both share Redis.
        assert (3, hits + 1) == (len(answer), redis_hits(second))
        with running(machine, "worker", "Processing") as (worker, _):
            batch = second.post("/v1/batches", json=BATCH).headers["Location"]
            soon(lambda: first.get(batch).json()["done"] >= 20)
            assert first.get(batch).json()["done"] < len(IDS)
            assert [0, -signal.SIGTERM, -signal.SIGTERM] == ended(worker, one, two)
    with serving(machine, key) as (service, client), running(machine, "worker", "Processing") as (worker, _):
        soon(lambda: client.get(batch).json()["state"] == "done")
        expect_all(client, answer, batch)
        kept = back_up(machine)
        assert client.delete("/v1/papers/whales").is_success
        assert [0, -signal.SIGTERM] == ended(worker, service)
    restore(machine, kept)
    only_reads = replace(machine, read_only=["/var/lib/akin"], variables={"AKIN_SECRET": "s" * 32})
    for each in (machine, only_reads):
        with serving(each, key) as (_, client):
            expect_all(client, answer, batch)
    assert before == compiled(machine)  # nothing was compiled or written again


def test_the_cuda_image_works_on_processors(
    prefix: Path, postgres_url: str, redis_server: RedisServer
) -> None:
    """The CUDA image lacks only faiss-cpu, works on CPUs, and ends with an error without a GPU."""
    machine = built(CUDA, prefix, postgres_url, redis_server, "gpu", AKIN_DEVICE="cpu")
    python = str(machine.path("/opt/akin/bin/python3"))
    lacks = re.findall("requires `([^`]+)`", packages_checked(machine).stderr)
    assert ["faiss-cpu"] == [Requirement(each).name for each in lacks]
    for_gpus = "import faiss, torch; assert torch.version.cuda and hasattr(faiss, 'StandardGpuResources')"
    assert 0 == machine.run("service-gpu", [python, "-c", for_gpus]).returncode
    machine.path("/corpus").mkdir()
    shutil.copy2(DEMO_CORPUS, machine.path("/corpus"))
    key, indexed = machine.run("keys-gpu").stdout.strip(), machine.run("indexer-gpu")
    assert (0, True) == (indexed.returncode, "Indexed 100 papers" in indexed.stdout), indexed.stderr
    with serving(machine, key, "service-gpu") as (service, client):
        assert 3 == len(client.post("/v1/search", json=SEARCH).json()["results"])
        assert [-signal.SIGTERM] == ended(service)
    if not Path("/dev/nvidiactl").exists():
        again = replace(machine, settings={"INDEX_OPTIONS": "--again"}).run("indexer-gpu")
        assert (1, True) == (again.returncode, "no usable CUDA" in again.stderr)


def expect_all(client: httpx.Client, answer: object, batch: str) -> None:
    """Check the answer, the added paper, each seed of the batch, and that nothing is degraded."""
    assert answer == client.post("/v1/search", json=SEARCH).json()["results"]
    assert 200 == client.get("/v1/papers/whales").status_code
    results = [json.loads(line) for line in client.get(f"{batch}/results").content.splitlines()]
    assert list(enumerate(IDS)) == [(line["seed"], line["paper_id"]) for line in results]
    assert {3} == {len(line["results"]) for line in results}
    assert [] == client.get("/readyz").json()["degraded"]


def back_up(machine: Machine) -> dict[str, str]:
    """Back up with the commands of docs/how-to/deploy.md; return the page's paths and those here."""
    folder = machine.path("/var/cache/akin/backup")
    places = {
        "/backup/": f"{folder}/",
        "/srv/backup/": f"{machine.prefix}/",
        "/var/lib/akin": str(machine.path("/var/lib/akin")),
    }
    (copy,) = (words for words in of_akin() if words[0] == "backup")
    copied = machine.run("service", ["akin", *(placed(word, places) for word in copy)])
    assert 0 == copied.returncode, copied.stderr
    in_postgres(machine, "pg_dump", places)
    return places


def restore(machine: Machine, places: dict[str, str]) -> None:
    """Restore the backup over the present data with the commands of the page."""
    (copy,) = (words for words in commands() if "--entrypoint" in words)
    copied = machine.run("service", ["sh", "-c", placed(copy[-1], places)])
    assert 0 == copied.returncode, copied.stderr
    for program in ("dropdb", "createdb", "pg_restore"):
        in_postgres(machine, program, places)


def placed(word: str, places: dict[str, str]) -> str:
    """Return a word with the page's paths replaced by those here."""
    for place in sorted(places, key=len, reverse=True):
        word = re.sub(rf"(?<![\w/]){place}", places[place], word)
    return word


def in_postgres(machine: Machine, program: str, places: dict[str, str]) -> None:
    """Run the page's command for PostgreSQL's container with the server and database of the tests."""
    (words,) = (words[5:] for words in commands() if words[:5] == IN_POSTGRES and words[5] == program)
    url = make_url(machine.catalog_url)
    named = {
        "akin": url.database,
        "--username=akin": f"--username={url.username}",
        "--dbname=akin": f"--dbname={url.database}",
    }
    folder = find_programs()
    assert folder is not None
    line = shlex.join(
        [str(folder / program), *(str(named.get(word, placed(word, places))) for word in words[1:])]
    )
    line = line.replace("'>'", ">").replace("'<'", "<")
    where = {
        "PGHOST": str(url.query.get("host") or url.host),
        "PGPORT": str(url.query.get("port") or url.port or 5432),
    }
    done = subprocess.run(
        ["/bin/sh", "-c", line], env={**os.environ, **where}, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, f"{line}\n{done.stderr}"
