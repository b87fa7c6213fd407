"""Hostile requests: how long /livez takes while each is answered, and the peak memory of the service.

Starts `akin serve` for each request, on a free port:

python -m benchmarks.serving.hostile DATA [--seconds 3]
"""

import argparse
import http.client
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import numpy as np

CAP_BYTES = 32_000_000
_POLL_S = 0.002

Request = tuple[str, str, bytes]


def nested(n_bytes: int) -> bytes:
    """Return a batch with empty lists as seeds."""
    return b'{"seeds":[' + b",".join([b"[]"] * (n_bytes // 3)) + b"]}"


def requests() -> dict[str, Request]:
    """Return the requests by name."""
    many = urlencode({"like": [f"p{number}" for number in range(700)]}, doseq=True)
    long = b'{"seeds":[' + b",".join([b"9" * 4_299] * (CAP_BYTES // 4_300 - 10)) + b"]}"
    precise = b'{"seeds":[' + b",".join([b"1.2345678901234567e-300"] * 80_000) + b"]}"
    escaped = b'{"queries":[{"query":{"abstract":"' + b"\\u0041" * ((CAP_BYTES - 100) // 6) + b'"}}]}'
    return {
        "14,000 slashes": ("GET", "/?text=http://a" + "/" * 14_000 + "x", b""),
        "700 further papers": ("GET", f"/?{many}", b""),
        "nested lists, 0.7 MB": ("POST", "/v1/batches", nested(700_000)),
        "nested lists, 4.5 MB": ("POST", "/v1/batches", nested(4_500_000)),
        "nested lists, 32 MB": ("POST", "/v1/batches", nested(CAP_BYTES - 100)),
        "long numbers, 32 MB": ("POST", "/v1/batches", long),
        "precise numbers, 1.9 MB": ("POST", "/v1/batches", precise),
        "ticked boxes": ("GET", "/?" + "&".join(f"ticked={number}" for number in range(5_000)), b""),
        "escaped text, 32 MB": ("POST", "/v1/batches", escaped),
    }


@contextmanager
def service(data: Path) -> Iterator[tuple[int, int]]:
    """Start `akin serve` and yield its process id and port."""
    command = [sys.executable, "-m", "akin", "serve", "--data", str(data), "--port", "0", "--device", "cpu"]
    variables = {"PYTHONUNBUFFERED": "1", "COLUMNS": "300", "AKIN_LOG_LEVEL": "error"}
    process = subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables}
    )
    assert process.stdout is not None
    try:
        line = next(line for line in process.stdout if line.startswith("Serving"))
        found = re.search(r"http://[^:]+:(\d+)", line)
        assert found is not None
        yield process.pid, int(found[1])
    finally:
        process.kill()
        process.communicate()


def ask(port: int, request: Request) -> int:
    """Return the status of the answer to one request."""
    method, path, body = request
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def look(port: int, ended: threading.Event) -> list[float]:
    """Request /livez again and again and return the milliseconds of each answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    times = []
    while not ended.is_set():
        started = time.perf_counter()
        connection.request("GET", "/livez")
        connection.getresponse().read()
        times.append((time.perf_counter() - started) * 1000)
        time.sleep(_POLL_S)
    return times


def measure(port: int, request: Request, seconds: float) -> tuple[set[int], list[float]]:
    """Return the statuses of a request sent repeatedly, and the times of /livez meanwhile."""
    statuses: set[int] = set()
    ended = threading.Event()

    def send() -> None:
        until = time.monotonic() + seconds
        while not statuses or time.monotonic() < until:
            statuses.add(ask(port, request))
        ended.set()

    sender = threading.Thread(target=send)
    sender.start()
    times = look(port, ended)
    sender.join()
    return statuses, times


def peak_mib(pid: int) -> float:
    """Return the peak memory of a process, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    print(f"{'request':<22} {'status':<8} {'median':>8} {'p99':>8} {'max ms':>8} {'peak MiB':>9}")
    for name, request in requests().items():
        with service(given.data) as (pid, port):
            statuses, times = measure(port, request, given.seconds)
            median, p99, most = np.percentile(times, [50, 99, 100])
            said = ",".join(map(str, sorted(statuses)))
            print(
                f"{name:<22} {said:<8} {median:8.1f} {p99:8.1f} {most:8.1f} {peak_mib(pid):9.0f}", flush=True
            )


if __name__ == "__main__":
    main()
