"""The service with 1 to 64 clients, and the cost of a search over HTTP compared with the search itself."""

import json
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

import akin
from benchmarks.suite.rows import OURS, Row, beside, seconds_of
from tests.support.servers.processes import service_process

SECONDS = 4.0
CLIENTS = (1, 4, 16, 64)
TOGETHER = 8  # texts that are encoded together, and clients that send them
_DEMO = Path(akin.__file__).parent / "demo" / "papers.jsonl"
_ROUNDS, _WINDOWS = 40, 3
_AS_JSON = "the same as JSON"


def rows(folder: Path) -> Iterator[Row]:
    """Yield the rows of the service over the demo corpus, indexed in ``folder``; searches by id, no cache."""
    from indexer.collection.build import build  # noqa: PLC0415 - loads torch
    from indexer.encoding.arguments import BuildArguments  # noqa: PLC0415 - loads torch
    from models.annotator import load_annotator  # noqa: PLC0415
    from models.types import ignore_progress  # noqa: PLC0415

    arguments = BuildArguments(encoder="minilm", device="cpu")
    annotator = load_annotator("minilm", device="cpu")
    build([_DEMO], folder, annotator, arguments=arguments, on_progress=ignore_progress)
    papers = [json.loads(line) for line in _DEMO.read_text(encoding="utf-8").splitlines()]
    ids = [paper["id"] for paper in papers]
    variables = {"AKIN_RATE": "0", "AKIN_CACHE_MIB": "0", "AKIN_LOG_LEVEL": "error", "OMP_NUM_THREADS": "1"}
    with service_process(folder, **variables) as (_, client):
        yield from _small_answers(client, ids)
        yield from _clients(str(client.base_url), ids)
    with (
        service_process(folder, **variables, AKIN_RUNNING=str(TOGETHER)) as (_, alone),
        service_process(folder, **variables, AKIN_TOGETHER=str(TOGETHER)) as (_, together),
    ):
        texts = [" ".join(paper["abstract"][0].split()[:8]) for paper in papers]
        yield _together(str(together.base_url), str(alone.base_url), texts)


def _clients(address: str, ids: list[str]) -> Iterator[Row]:
    """Yield searches per second by number of clients, in turns; answers other than 200 are counted."""
    windows_by_clients: dict[int, list[_Window]] = {n_clients: [] for n_clients in CLIENTS}
    queries = [{"paper_id": each} for each in ids]
    for _ in range(_WINDOWS):
        for n_clients, windows in windows_by_clients.items():
            windows.append(_measure_window(address, queries, n_clients))
    alone = [window.rate for window in windows_by_clients[1]]
    for n_clients, windows in windows_by_clients.items():
        ratios = [window.rate / one for window, one in zip(windows, alone, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        took = [each for window in windows for each in window.took]
        quantiles = statistics.quantiles(took, n=100)
        others = sum((window.others for window in windows), Counter())
        refused = ", ".join(f"{count} were {status}" for status, count in sorted(others.items()))
        yield Row(
            "",
            f"{n_clients} client{'s' * (n_clients > 1)} searching by id",
            "searches a second",
            statistics.median(window.rate for window in windows),
            "one client",
            statistics.median(alone),
            middle,
            (low, high),
            note=f"p50 {1000 * quantiles[49]:.0f}, p99 {1000 * quantiles[98]:.0f} ms; of "
            f"{len(took) + others.total():,} answers {refused or 'all were 200'}",
        )


def _together(together: str, alone: str, texts: list[str]) -> Row:
    """Compare a service that encodes simultaneous texts in one batch with one that encodes each alone."""
    queries = [{"text": text} for text in texts]
    windows: dict[str, list[_Window]] = {together: [], alone: []}
    for _ in range(_WINDOWS):
        for address, own in windows.items():
            own.append(_measure_window(address, queries, TOGETHER))
    rates = {address: [window.rate for window in own] for address, own in windows.items()}
    low, middle, high = statistics.quantiles(
        [ours / theirs for ours, theirs in zip(rates[together], rates[alone], strict=True)], n=4
    )
    return Row(
        "",
        f"{TOGETHER} clients searching by eight typed words, encoded together",
        "searches a second",
        statistics.median(rates[together]),
        f"each encoded alone, {TOGETHER} at once",
        statistics.median(rates[alone]),
        middle,
        (low, high),
        note=f"`AKIN_TOGETHER={TOGETHER}`, which is off unless it is set",
    )


def _small_answers(client: httpx.Client, ids: list[str]) -> Iterator[Row]:
    """Compare a whole answer with one of scores and metadata, and with the search time it reports."""
    parts = ("scores and metadata alone", "the search itself", "a request that does nothing")
    spent: dict[str, list[float]] = {name: [] for name in (OURS, *parts)}
    pages: dict[str, list[float]] = {OURS: [], _AS_JSON: []}
    for number, name in enumerate(ids[:_ROUNDS]):
        body = {"query": {"paper_id": name}, "limit": 20}
        both = ((OURS, body), ("scores and metadata alone", {**body, "include": []}))
        for kind, request in both if number % 2 else reversed(both):
            start = time.perf_counter()
            answer = client.post("/v1/search", json=request)
            spent[kind].append(time.perf_counter() - start)
            answer.raise_for_status()
            if kind == OURS:
                spent["the search itself"].append(answer.json()["took_ms"] / 1000)
        spent["a request that does nothing"].append(seconds_of(_answered(client, "GET", "/livez")))
        pages[OURS].append(seconds_of(_answered(client, "GET", "/", params={"paper": name, "limit": 10})))
        pages[_AS_JSON].append(
            seconds_of(_answered(client, "POST", "/v1/search", json={**body, "limit": 10}))
        )
    yield beside(
        spent,
        "the search itself",
        goal="",
        what="20 results over HTTP",
        inverted=True,
        note="by its took_ms, in which neither writing the answer nor the network counts",
    )
    for part in ("scores and metadata alone", "a request that does nothing"):
        yield beside(spent, part, goal="", what="20 results over HTTP", inverted=True)
    yield beside(pages, _AS_JSON, goal="", what="10 results as a page over HTTP", inverted=True)


def _answered(client: httpx.Client, method: str, path: str, **given: Any) -> Callable[[], object]:
    """Return a request to be timed; it raises httpx.HTTPStatusError unless it succeeds."""
    return lambda: client.request(method, path, **given).raise_for_status()


@dataclass(slots=True)
class _Window:
    """One window: the seconds of each answer with 200, and the number of answers with each other status."""

    took: list[float] = field(default_factory=list)
    others: Counter[int] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Answers with 200 per second."""
        return len(self.took) / SECONDS


def _measure_window(address: str, queries: list[dict[str, str]], n_clients: int) -> _Window:
    """Search with ``n_clients`` clients, each on one connection that is open when the window begins.

    A client that is refused waits as long as the answer says. Answers after the window do not count.
    """
    window = _Window()
    ready = threading.Barrier(n_clients, timeout=60)

    def search(number: int) -> None:
        with httpx.Client(base_url=address, timeout=60, verify=False) as client:  # noqa: S501 - loopback
            client.get("/livez").raise_for_status()
            ready.wait()
            ends = time.perf_counter() + SECONDS
            while (start := time.perf_counter()) < ends:
                answer = client.post("/v1/search", json={"query": queries[number % len(queries)]})
                done = time.perf_counter()
                if done > ends:
                    return
                if answer.status_code == httpx.codes.OK:
                    window.took.append(done - start)
                else:
                    window.others[answer.status_code] += 1
                    time.sleep(min(float(answer.headers.get("retry-after", 0)), max(ends - done, 0)))
                number += 1

    with ThreadPoolExecutor(n_clients) as pool:
        for _ in pool.map(search, range(0, 17 * n_clients, 17)):
            pass  # raises what a client raised
    return window
