"""A service under mixed reads and writes for a given time, and the resources of its process meanwhile."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from scipy.stats import theilslopes

from tests.support.servers.patience import soon

WRITTEN = 2  # papers that a round adds; two rounds later they are deleted
FACETS = ("background", "method", "result")


@dataclass(frozen=True)
class Held:
    """The resources of the process after a round: private memory in MiB, open files and sockets, threads.

    ``second`` is the time since the soak began.
    """

    second: float
    memory_mib: float
    files: int
    threads: int

    @classmethod
    def of(cls, pid: int, second: float) -> "Held":
        """Read the resources of ``pid`` from /proc; memory mapped from files does not count."""
        status = dict(
            line.split(":", 1)
            for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
        )
        return cls(
            round(second, 1),
            int(status["RssAnon"].split()[0]) / 1024,
            sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
            int(status["Threads"]),
        )


@dataclass
class Soak:
    """Requests in rounds to a service with process ``pid``; ``ids`` are papers that are never deleted."""

    address: str
    pid: int
    ids: list[str]
    n_readers: int = 2
    n_requests: int = 0
    wrong: list[str] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, goes_on: Callable[[int], bool], on_round: Callable[[int, Held], None]) -> None:
        """Run rounds of writes, with readers in parallel, while ``goes_on`` of the round number is true."""
        done = threading.Event()
        readers = [threading.Thread(target=self._read, args=(seed, done)) for seed in range(self.n_readers)]
        for reader in readers:
            reader.start()
        try:
            with httpx.Client(base_url=self.address, timeout=60) as client:
                number, began = 0, time.monotonic()
                while goes_on(number):
                    self._write(client, number)
                    self.held.append(Held.of(self.pid, time.monotonic() - began))
                    on_round(number, self.held[-1])
                    number += 1
        finally:
            done.set()
            for reader in readers:
                reader.join()

    def _ask(
        self, client: httpx.Client, method: str, path: str, body: object = None, *statuses: int
    ) -> httpx.Response:
        """Send a request; record in ``wrong`` a status that is none of ``statuses`` (or not 200)."""
        answer = client.request(method, path, json=body)
        with self._lock:
            self.n_requests += 1
            if answer.status_code not in (statuses or (200,)):
                self.wrong.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
        return answer

    def _read(self, seed: int, done: threading.Event) -> None:
        """Send every kind of read request in turn, with a new connection for each turn."""
        draw = random.Random(seed)
        while not done.is_set():
            with httpx.Client(base_url=self.address, timeout=60) as client:
                one, other = draw.sample(self.ids, 2)
                body: dict[str, Any] = {"query": {"paper_id": one}, "limit": 10}
                cursor = self._ask(client, "POST", "/v1/search", body).json().get("next_cursor")
                # The generation of the cursor may have been removed meanwhile (410), which is no fault.
                self._ask(client, "POST", "/v1/search", {**body, "cursor": cursor}, 200, 410)
                self._ask(client, "POST", "/v1/search", {**body, "facet": draw.choice(FACETS)})
                pasted = {
                    "title": f"Paper {draw.random()}",
                    "abstract": "We fit a graph. It forecasts floods.",
                }
                self._ask(client, "POST", "/v1/search", {"query": pasted})
                self._ask(client, "POST", "/v1/search", {"query": {"text": f"floods {draw.random()}"}})
                self._ask(
                    client, "POST", "/v1/recommendations", {"seeds": [{"paper_id": one}, {"paper_id": other}]}
                )
                self._ask(client, "POST", "/v1/search", {"query": {"paper_id": "nowhere"}}, 404)
                self._ask(client, "POST", "/v1/search", {"query": {}}, 422)
                self._ask(client, "GET", f"/?paper={one}")
                self._ask(client, "GET", "/v1/papers?limit=20")

    def _write(self, client: httpx.Client, number: int) -> None:
        """Add and delete papers; save, read and delete a query; run, read and delete a batch."""
        papers = [
            {
                "id": f"soak-{number}-{i}",
                "title": f"Round {number}",
                "abstract": f"We add paper {i}. It is read.",
            }
            for i in range(WRITTEN)
        ]
        # 202 on a busy machine: not searchable within the time that a request may wait.
        self._ask(client, "POST", "/v1/papers?wait=true", {"papers": papers}, 200, 202)
        for i in range(WRITTEN if number >= 2 else 0):
            self._ask(client, "DELETE", f"/v1/papers/soak-{number - 2}-{i}", None, 204, 202)
        named = {"name": f"round {number}", "search": {"query": {"paper_id": self.ids[0]}}}
        saved = self._ask(client, "POST", "/v1/queries", named, 201).headers["Location"]
        self._ask(client, "GET", f"{saved}/new")
        self._ask(client, "DELETE", saved, None, 204)
        batch = self._ask(client, "POST", "/v1/batches", {"seeds": self.ids[:5], "limit": 3}, 202).headers[
            "Location"
        ]
        soon(lambda: client.get(batch).json()["state"] in {"done", "failed"})
        self._ask(client, "GET", f"{batch}/results")
        self._ask(client, "DELETE", batch, None, 204)

    def grown(self, what: str) -> tuple[float, float]:
        """Return the median of ``what`` over the third quarter of the rounds, and over the last quarter."""
        values = np.array([getattr(each, what) for each in self.held])
        third, last = np.array_split(values, 4)[2:]
        return float(np.median(third)), float(np.median(last))

    def memory_per_hour(self) -> float:
        """Return the slope of the memory over the second half of the rounds, in MiB an hour (Theil-Sen)."""
        half = self.held[len(self.held) // 2 :]
        seconds, memory = (
            np.array([getattr(each, what) for each in half]) for what in ("second", "memory_mib")
        )
        return 3600 * float(theilslopes(memory, seconds).slope)


def for_seconds(seconds: float) -> Callable[[int], bool]:
    """Return a function for ``goes_on`` that is true for ``seconds`` from now."""
    end = time.monotonic() + seconds
    return lambda _: time.monotonic() < end
