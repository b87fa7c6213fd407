"""Swap generations again and again under load: ``python benchmarks/swaps.py DATA [--swaps 1000]``.

A copy of DATA is served by ``akin serve``; papers are added and deleted one by one, each change a generation.
Meanwhile clients search, and one reads lists of a thousand results page by page. Counted are requests that
fail, answers of one generation that differ, and pages that repeat or leave out a paper.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from indexer.snapshot import open_snapshot

SEARCHERS = 3
LIST = 1_000
PAGE = 50
SHOWN_WITHIN_S = 30


@dataclass
class Seen:
    """What the clients saw."""

    searches: int = 0
    lists: int = 0
    failed: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    unfit: list[str] = field(default_factory=list)
    answers: dict[tuple[str, str], str] = field(default_factory=dict)
    took_ms: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, asked: str, response: httpx.Response) -> dict[str, Any]:
        """Note one answer; nothing where it failed."""
        if response.status_code != 200:
            with self.lock:
                self.failed.append(f"{response.status_code} {response.text[:200]}")
            return {}
        answer: dict[str, Any] = response.json()
        answer.pop("took_ms")
        generation, content = answer["generation"], json.dumps(answer, sort_keys=True)
        with self.lock:
            self.searches += 1
            self.took_ms.append(response.elapsed.total_seconds() * 1000)
            first = self.answers.setdefault((asked, generation), content)
            if first != content or response.headers["x-akin-generation"] != generation:
                self.mixed.append(generation)
        return answer


def search_on(url: str, ids: list[str], seen: Seen, done: threading.Event) -> None:
    """Search by one paper after the other until it is done."""
    with httpx.Client(base_url=url, timeout=60) as client:
        while not done.is_set():
            for paper_id in ids:
                seen.take(paper_id, client.post("/v1/search", json={"query": {"paper_id": paper_id}}))


def read_on(url: str, paper_id: str, seen: Seen, done: threading.Event) -> None:
    """Read lists of LIST results page by page, slowly enough that generations are swapped meanwhile."""
    with httpx.Client(base_url=url, timeout=60) as client:
        while not done.is_set():
            body: dict[str, Any] = {"query": {"paper_id": paper_id}, "limit": PAGE}
            whole: list[str] = []
            first = ""
            while len(whole) < LIST:
                page = seen.take(f"list {body.get('cursor')}", client.post("/v1/search", json=body))
                whole += [result["paper"]["id"] for result in page.get("results", [])]
                first = first or page.get("generation", "")
                if page.get("generation") != first or not page.get("next_cursor"):
                    break
                body["cursor"] = page["next_cursor"]
                time.sleep(0.1)
            with seen.lock:
                seen.lists += 1
                if len(whole) < LIST or len(set(whole)) != len(whole):
                    seen.unfit.append(f"{len(whole)} results, {len(set(whole))} papers")


def swap(client: httpx.Client, number: int) -> float:
    """Add a paper, or delete the one added before; seconds until it shows."""
    name = f"swapped-{number // 2}"
    if number % 2:
        client.delete(f"/v1/papers/{name}").raise_for_status()
    else:
        paper = {"id": name, "title": f"Swap {number}", "abstract": f"We swap generation {number}."}
        client.post("/v1/papers", json={"papers": [paper]}).raise_for_status()
    started = time.perf_counter()
    expected = 404 if number % 2 else 200
    while client.get(f"/v1/papers/{name}").status_code != expected:
        if time.perf_counter() - started > SHOWN_WITHIN_S:
            raise TimeoutError(f"change {number} does not show")
        time.sleep(0.005)
    return time.perf_counter() - started


def main() -> int:
    """Print what was seen; the status is 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--swaps", type=int, default=1_000)
    given = parser.parse_args()
    seen, done = Seen(), threading.Event()
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        data = Path(folder) / "data"
        shutil.copytree(given.data, data)
        snapshot = open_snapshot(data)
        drawn = np.random.default_rng(0).choice(snapshot.positions, 9, replace=False)
        ids = [snapshot.paper(int(position)).id for position in drawn]
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        command = [sys.executable, "-m", "akin", "serve", "--data", str(data), "--port", str(port)]
        command += ["--keyless", "write"]
        service = subprocess.Popen(  # noqa: S603 - ours
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "AKIN_RATE": "0"},  # it is one client, and asks without pause
        )
        url = f"http://127.0.0.1:{port}"
        shown = run(url, ids, given.swaps, seen, done)
        service.terminate()
        service.wait()
    table = Table("what", "figure", title=f"{given.swaps:,} swaps, {len(snapshot):,} papers")
    table.add_row("searches, failed", f"{seen.searches:,}, {len(seen.failed)}")
    table.add_row("answers that differ within a generation", str(len(seen.mixed)))
    table.add_row(f"lists of {LIST:,} read, that repeat or leave out", f"{seen.lists:,}, {len(seen.unfit)}")
    for name, of in (
        ("a change shows after, ms", [1000 * s for s in shown]),
        ("a search takes, ms", seen.took_ms),
    ):
        table.add_row(f"{name}: median / p95", f"{np.median(of):.0f} / {np.percentile(of, 95):.0f}")
    Console().print(table, *seen.failed[:5], *seen.unfit[:5])
    return 1 if seen.failed or seen.mixed or seen.unfit else 0


def run(url: str, ids: list[str], n_swaps: int, seen: Seen, done: threading.Event) -> list[float]:
    """Swap under load; seconds until each change showed."""
    with httpx.Client(base_url=url, timeout=60) as client:
        while True:
            try:
                client.get("/readyz").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.2)
        threads = [
            threading.Thread(target=search_on, args=(url, ids[i::SEARCHERS], seen, done))
            for i in range(SEARCHERS)
        ]
        threads.append(threading.Thread(target=read_on, args=(url, ids[0], seen, done)))
        for thread in threads:
            thread.start()
        try:
            return [swap(client, number) for number in track(range(n_swaps), "Swapping")]
        finally:
            done.set()
            for thread in threads:
                thread.join()


if __name__ == "__main__":
    sys.exit(main())
