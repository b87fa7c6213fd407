"""Ray clusters on this machine; each node has separate processes, as on separate machines."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.servers.patience import soon

# The token of all nodes and clients.
TOKEN = "a-token-of-these-tests-and-no-secret-at-all"  # noqa: S105 - it is none
ENVIRONMENT = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "RAY_USAGE_STATS_ENABLED": "0"}
_OBJECT_STORE_BYTES = 80_000_000
# By default, nodes on one machine would use the same ports.
_ANY_PORTS = ("--min-worker-port=0", "--max-worker-port=0", "--disable-usage-stats")
# As in docs/how-to/deploy.md: a node that is gone is noticed soon.
NOTICING = (
    '{"health_check_period_ms": 1000, "health_check_timeout_ms": 1000, "health_check_failure_threshold": 3}'
)
_ROOT = Path(__file__).parents[3]


class RayNode:
    """The processes of a node, in a separate process group that is killed as a whole."""

    def __init__(self, *options: str, environment: Mapping[str, str]) -> None:
        command = [str(Path(sys.executable).with_name("ray")), "start", "--block", *options, *_ANY_PORTS]
        self.process = subprocess.Popen(
            [*command, f"--object-store-memory={_OBJECT_STORE_BYTES}", "--num-cpus=1"],
            env={**os.environ, "PYTHONPATH": str(_ROOT), **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def kill(self) -> None:
        """Kill all its processes at once, like a machine that loses power."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class RayCluster:
    """A cluster with a head and more nodes; as a context manager it ends with the context."""

    def __init__(self, **environment: str) -> None:
        # Paths of sockets may have at most 107 characters.
        self._folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        self._environment = {**ENVIRONMENT, **environment}
        self.nodes: list[RayNode] = []
        own = ("--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--include-dashboard=false")
        self.head = self._begun(*own, f"--temp-dir={self._folder}", f"--system-config={NOTICING}")
        soon(self._answers, process=self.head.process, every_s=0.1)

    def add_node(self, *options: str) -> RayNode:
        """Start one more node, with more options of ``ray start``."""
        return self._begun(f"--address={self.address}", "--node-ip-address=127.0.0.1", *options)

    def _begun(self, *options: str) -> RayNode:
        node = RayNode(*options, environment=self._environment)
        self.nodes.append(node)
        return node

    def _answers(self) -> bool:
        host, port = self.address.split(":")
        try:
            with socket.create_connection((host, int(port)), timeout=1):
                return True
        except OSError:
            return False

    def __enter__(self) -> "RayCluster":  # noqa: PYI034 - the tests' type checker knows no Self in methods
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            if node.process.poll() is None:
                node.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture(scope="session")
def ray_environment() -> Iterator[None]:
    """The environment that this process needs to join a test cluster; Ray reads it when imported."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        pytest.importorskip("ray", reason="no Ray: pip install akin[ray]")
        yield


@pytest.fixture(scope="session")
def ray_cluster(ray_environment: None) -> Iterator[RayCluster]:
    """A cluster with one node, which this process may join."""
    with RayCluster() as cluster:
        yield cluster
        import_module("ray").shutdown()
