"""Repeated swaps of generations under load.

Papers are added and deleted one by one, each change a generation. Meanwhile clients search, and one reads
long lists page by page. Failed requests, different answers of one generation, and pages that repeat or leave
out a paper are counted.
"""

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
from rich.progress import track

from tests.support.servers.patience import soon

SEARCHERS = 3
PAGE = 50


@dataclass
class Seen:
    """The results of all clients; lists have ``n_listed`` results."""

    n_listed: int
    searches: int = 0
    lists: int = 0
    failed: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    unfit: list[str] = field(default_factory=list)
    answers: dict[tuple[str, str], str] = field(default_factory=dict)
    took_ms: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, paper_id: str, response: httpx.Response) -> dict[str, Any]:
        """Record an answer and return it; empty if the request failed."""
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
            first = self.answers.setdefault((paper_id, generation), content)
            if first != content or response.headers["x-akin-generation"] != generation:
                self.mixed.append(generation)
        return answer


def search_on(url: str, ids: list[str], seen: Seen, done: threading.Event) -> None:
    """Search by one paper after the other until ``done`` is set."""
    with httpx.Client(base_url=url, timeout=60) as client:
        while not done.is_set():
            for paper_id in ids:
                seen.take(paper_id, client.post("/v1/search", json={"query": {"paper_id": paper_id}}))


def read_on(url: str, paper_id: str, seen: Seen, done: threading.Event) -> None:
    """Read long lists page by page, so slowly that generations are swapped meanwhile."""
    with httpx.Client(base_url=url, timeout=60) as client:
        while not done.is_set():
            body: dict[str, Any] = {"query": {"paper_id": paper_id}, "limit": PAGE}
            whole: list[str] = []
            first = ""
            while len(whole) < seen.n_listed:
                page = seen.take(f"list {body.get('cursor')}", client.post("/v1/search", json=body))
                whole += [result["paper"]["id"] for result in page.get("results", [])]
                first = first or page.get("generation", "")
                if page.get("generation") != first or not page.get("next_cursor"):
                    break
                body["cursor"] = page["next_cursor"]
                time.sleep(0.1)
            with seen.lock:
                seen.lists += 1
                if len(whole) < seen.n_listed or len(set(whole)) != len(whole):
                    seen.unfit.append(f"{len(whole)} results, {len(set(whole))} papers")


def swap(client: httpx.Client, number: int) -> float:
    """Add a paper, or delete the one added before; return the seconds until the change is visible."""
    name = f"swapped-{number // 2}"
    if number % 2:
        client.delete(f"/v1/papers/{name}").raise_for_status()
    else:
        paper = {"id": name, "title": f"Swap {number}", "abstract": f"We swap generation {number}."}
        client.post("/v1/papers", json={"papers": [paper]}).raise_for_status()
    started = time.perf_counter()
    expected = 404 if number % 2 else 200
    soon(lambda: client.get(f"/v1/papers/{name}").status_code == expected, every_s=0.005)
    return time.perf_counter() - started


def run(client: httpx.Client, ids: list[str], n_swaps: int, seen: Seen) -> list[float]:
    """Swap generations of a service under load; return the seconds until each change was visible."""
    url, done = str(client.base_url), threading.Event()
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
