"""Overload: how much the service still answers, and how fast it refuses the rest, at four times capacity.

Starts `akin serve` on a free port, finds its capacity with clients that wait for their answers, then offers
four times that rate over as many connections as needed, open-loop (requests do not wait for one another). The
load uses the same processors, so the capacity is measured once more next to a process that only refuses the
excess requests:

python -m benchmarks.serving.overload DATA [--seconds 10] [--rounds 3] [--running 2]
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

LOAD = 4.0
REFUSER = """
import asyncio
async def refuse(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 503 Busy\\r\\nRetry-After: 1\\r\\nContent-Length: 0\\r\\n")
    writer.write(b"Connection: close\\r\\n\\r\\n")
    writer.close()
async def main():
    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
import uvloop; uvloop.run(main())
"""
MAX_CONNECTIONS = 2_000


@dataclass
class Load:
    """The answers: for each status the seconds from sending to the end of the answer's headers."""

    seconds: float = 0.0
    by_status: dict[int, list[float]] = field(default_factory=dict)
    broken: Counter[str] = field(default_factory=Counter)
    without_retry_after: int = 0

    def rate(self, status: int) -> float:
        """Return the answers with a status per second."""
        return len(self.by_status.get(status, [])) / self.seconds

    def p(self, percent: float, *statuses: int) -> float:
        """Return a percentile, in ms, over some statuses; nan if there are none."""
        times = [each for status in statuses for each in self.by_status.get(status, [])]
        return float(np.percentile(times, percent)) * 1000 if times else float("nan")


def request_bytes(abstract: str, number: int) -> bytes:
    """Return a search for a pasted paper with a new title, so it must be encoded, searched and re-ranked."""
    body = json.dumps({"query": {"title": f"Number {number}", "abstract": abstract}, "limit": 10}).encode()
    head = (
        "POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


async def ask(port: int, request: bytes, load: Load) -> None:
    """Send one request over a new connection, as many new clients do."""
    started = time.perf_counter()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        took_s = time.perf_counter() - started
        while await reader.read(65_536):
            pass
        writer.close()
    except (OSError, asyncio.IncompleteReadError) as error:
        load.broken[type(error).__name__] += 1
        return
    status = int(head[9:12])
    load.by_status.setdefault(status, []).append(took_s)
    if status in {429, 503} and b"retry-after:" not in head.lower():
        load.without_retry_after += 1


async def closed_loop(port: int, requests: Iterator[bytes], *, n_clients: int, seconds: float) -> Load:
    """Send each client's next request when the last is answered: the rate is the capacity."""
    load, started = Load(), time.monotonic()

    async def client() -> None:
        while time.monotonic() - started < seconds:
            await ask(port, next(requests), load)

    await asyncio.gather(*(client() for _ in range(n_clients)))
    load.seconds = time.monotonic() - started
    return load


async def open_loop(port: int, requests: Iterator[bytes], *, per_second: float, seconds: float) -> Load:
    """Send requests at a fixed rate, whether or not the others are answered."""
    load = Load()
    started, tasks, n = time.monotonic(), set(), 0
    while (elapsed := time.monotonic() - started) < seconds:
        while n < elapsed * per_second and len(tasks) < MAX_CONNECTIONS:
            task = asyncio.create_task(ask(port, next(requests), load))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            n += 1
        await asyncio.sleep(0.002)
    await asyncio.gather(*tasks)
    load.seconds = time.monotonic() - started  # includes answering what was still queued
    return load


async def capacity_beside(
    port: int, requests: Iterator[bytes], rate: float, n_clients: int, seconds: float
) -> Load:
    """Measure the capacity while another process refuses the excess requests."""
    with refuser() as other:
        load, _ = await asyncio.gather(
            closed_loop(port, requests, n_clients=n_clients, seconds=seconds),
            open_loop(other, requests, per_second=(LOAD - 1) * rate, seconds=seconds),
        )
    return load


def peak_mib(pid: int) -> float:
    """Return the peak memory of a process, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def cpu_s(pid: int) -> float:
    """Return the processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serve(data: Path, running: int, **more: str) -> tuple[subprocess.Popen[str], int]:
    """Start a service without rate limits, and return it with its port; ``more`` settings override ours."""
    settings = {"AKIN_RATE": "0", "AKIN_RUNNING": str(running), "OMP_NUM_THREADS": "1", **more}
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "akin", "serve", "--data", str(data), "--port", "0", "--device", "cpu"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **settings, "PYTHONUNBUFFERED": "1", "COLUMNS": "300"},
    )
    assert process.stdout is not None
    serving = next(line for line in process.stdout if line.startswith("Serving"))
    return process, int(serving.rpartition("http://")[2].split()[0].rpartition(":")[2])


@contextmanager
def refuser() -> Iterator[int]:
    """Start a process that refuses everything, and yield its port."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", REFUSER], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def report(name: str, load: Load, memory_mib: float) -> None:
    """Print one line."""
    counts = {status: len(times) for status, times in sorted(load.by_status.items())}
    print(
        f"{name:>9}: {load.rate(200):7.1f} answers/s, "
        f"p50 {load.p(50, 200):.0f} ms, p99 {load.p(99, 200):.0f} ms; "
        f"refused: p50 {load.p(50, 429, 503):.1f} ms, p99 {load.p(99, 429, 503):.1f} ms, "
        f"{load.without_retry_after} without Retry-After; {counts}; broken {dict(load.broken)}; "
        f"peak memory {memory_mib:.0f} MiB"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="in turn, for a machine that others use too")
    parser.add_argument("--running", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    abstract = "Rivers flood towns. We fit a graph network to gauges. It forecasts floods a day ahead."
    requests = map(partial(request_bytes, abstract), count())
    process, port = serve(given.data, given.running)
    n_clients = 4 * given.running
    try:
        asyncio.run(closed_loop(port, requests, n_clients=n_clients, seconds=3))
        ratios, by_processor, to_beside = [], [], []
        for _ in range(given.rounds):
            before_s = cpu_s(process.pid)
            capacity = asyncio.run(closed_loop(port, requests, n_clients=n_clients, seconds=given.seconds))
            report("capacity", capacity, peak_mib(process.pid))
            between_s = cpu_s(process.pid)
            overload = open_loop(port, requests, per_second=LOAD * capacity.rate(200), seconds=given.seconds)
            overloaded = asyncio.run(overload)
            report(f"{LOAD:g} x", overloaded, peak_mib(process.pid))
            after_s = cpu_s(process.pid)
            beside = asyncio.run(
                capacity_beside(port, requests, capacity.rate(200), n_clients, given.seconds)
            )
            report("beside", beside, peak_mib(process.pid))
            to_beside.append(overloaded.rate(200) / beside.rate(200))
            ratios.append(overloaded.rate(200) / capacity.rate(200))
            # The cost of refusing for the service, however much of the same processors the load itself uses.
            each = [len(load.by_status[200]) for load in (capacity, overloaded)]
            by_processor.append(each[1] / (after_s - between_s) / (each[0] / (between_s - before_s)))
        for name, values in (
            ("goodput / capacity", ratios),
            ("goodput / capacity beside a process that refuses", to_beside),
            ("goodput / capacity, each by second of the service's processor", by_processor),
        ):
            each = ", ".join(f"{ratio:.2f}" for ratio in values)
            print(f"{name}: median {np.median(values):.3f}; {each}")
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
