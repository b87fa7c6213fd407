"""Tests of the files of docs/how-to/deploy.md for nginx, Caddy and systemd, run or read by those programs."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from service.access.api_keys import Keys, Scope
from service.access.policy import MAX_BATCH_BYTES
from service.app import create_app
from service.settings import Settings
from tests.support.containers.deploy_page import blocks
from tests.support.servers.loopback import free_port, served
from tests.support.servers.patience import soon

pytestmark = pytest.mark.system

PAGE, API = "akin.example.org", "www.example.org"
SEARCH = {"query": {"paper_id": "demo:p09-m05"}, "limit": 3}


def beside(block: str, services: list[str]) -> str:
    """Return the block with the addresses of ``services`` for those of the page."""
    for shown, address in zip(("127.0.0.1:8000", "127.0.0.1:8001"), services, strict=True):
        block = block.replace(shown, address.removeprefix("http://"))
    return block


def nginx(folder: Path, services: list[str], port: int) -> list[str]:
    """Write the configuration of nginx that listens on ``port``; return the command that runs it."""
    (block,) = blocks("nginx")
    hosts = beside(block, services).replace("listen 80;", f"listen 127.0.0.1:{port};")
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "" if os.geteuid() else "user root;"  # its processes write bodies to this folder
    file = folder / "nginx.conf"
    file.write_text(
        f"{user} daemon off; pid {folder}/pid; error_log {folder}/errors;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{temporary}{hosts}}}\n",
        encoding="utf-8",
    )
    return ["nginx", "-p", str(folder), "-c", str(file)]


def caddy(folder: Path, services: list[str], port: int) -> list[str]:
    """Do the same for Caddy, without TLS."""
    (block,) = blocks("caddyfile")
    hosts = re.sub(r"^(\S+\.example\.org) \{", rf"http://\1:{port} {{", beside(block, services), flags=re.M)
    file = folder / "Caddyfile"
    file.write_text(f"{{\n    admin off\n}}\n{hosts}", encoding="utf-8")
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(file)]


@contextmanager
def proxied(command: list[str], port: int, folder: Path) -> Iterator[str]:
    """Run a proxy and yield its address once it answers."""
    if shutil.which(command[0]) is None:
        assert "CI" not in os.environ, f"no {command[0]}: .ci/run installs it"
        pytest.skip(f"no {command[0]}")
    with subprocess.Popen(
        command, env=os.environ | {"HOME": str(folder)}, stderr=subprocess.DEVNULL
    ) as process:
        try:
            address = f"http://127.0.0.1:{port}"

            def is_ready() -> bool:
                try:
                    return httpx.get(f"{address}/livez", headers={"Host": PAGE}).status_code == 200
                except httpx.TransportError:
                    return False

            soon(is_ready, process=process)
            yield address
        finally:
            process.terminate()


@pytest.mark.parametrize("proxy", [nginx, caddy])
def test_a_proxy_passes_on_page_and_api(
    proxy: Callable[[Path, list[str], int], list[str]], hashed_data: Path, tmp_path: Path
) -> None:
    """Page, search, a batch with its address, a body near the limit and a long address pass both services.

    A body above the limit is refused by the proxy.
    """
    data, port = Path(shutil.copytree(hashed_data, tmp_path / "data")), free_port()
    with Keys.open(data / "catalog.sqlite3") as keys:
        headers = {"X-API-Key": keys.create("proxy", scope=Scope.READ, expires_days=1).token}
    settings = Settings(data=data, device="cpu")
    with (
        served(create_app(settings)) as one,
        served(create_app(settings)) as other,
        proxied(proxy(tmp_path, [one, other], port), port, tmp_path) as address,
        httpx.Client(base_url=address, headers=headers, timeout=60) as client,
    ):
        page = client.get("/", headers={"Host": PAGE})
        assert page.text.startswith("<!doctype html>")
        long = client.get("/", params={"text": "é" * 2000}, headers={"Host": PAGE})
        assert (200, True) == (long.status_code, len(str(long.url)) > 9_000)
        for host, before in ((PAGE, ""), (API, "/akin")):
            named = {"Host": host}
            assert 401 == httpx.post(f"{address}{before}/v1/search", json=SEARCH, headers=named).status_code
            found = client.post(f"{before}/v1/search", json=SEARCH, headers=named)
            assert 3 == len(found.json()["results"])
            body = b" " * (MAX_BATCH_BYTES - 10**6) + b'{"seeds": ["demo:p09-m05"], "limit": 1}'
            sent = {**named, "Content-Type": "application/json"}
            batch = client.post(f"{before}/v1/batches", content=body, headers=sent)
            assert 202 == batch.status_code, batch.text
            path = httpx.URL(batch.headers["Location"]).path
            assert path.startswith(f"{before}/v1/batches/")
            assert 200 == client.get(path, headers=named).status_code
            above = client.post(f"{before}/v1/batches", content=body + b" " * 2**21, headers=sent)
            assert above.status_code in {413, 502}  # Caddy may find the service's end closed first


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """`systemd-analyze verify` finds nothing to say about the unit, run by a program that there is."""
    if (analyze := shutil.which("systemd-analyze")) is None:
        pytest.skip("no systemd-analyze")
    (unit,) = blocks("ini")
    file = tmp_path / "akin.service"
    file.write_text(unit.replace("/opt/akin/bin/akin", sys.executable), encoding="utf-8")
    said = subprocess.run([analyze, "verify", file], capture_output=True, text=True, check=False)
    own = [line for line in said.stderr.splitlines() if "akin.service" in line]
    assert (0, []) == (said.returncode, own), said.stderr
