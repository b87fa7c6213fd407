"""Telemetry: the cost of metrics, log and traces for a search, with and without in turn, in one process.

python -m benchmarks.serving.telemetry DATA [--times 300]
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import numpy as np
from fastapi.testclient import TestClient

from service.app import create_app
from service.collection.generations import open_engine
from service.observability.logging import configure_logging
from service.settings import Settings

# As in `akin serve`; traces are made and sent to a port where nobody listens.
ENDPOINT = "http://127.0.0.1:9"


class RequestIdOnly:
    """Replaces the middleware that observes requests: it only gives each request an id."""

    def __init__(self, app: object, **_: object) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, object], receive: object, send: object) -> None:
        """Pass a request on."""
        if scope["type"] == "http":
            scope["state"]["request_id"] = "0" * 32  # type: ignore[index]  # a dict
        await self._app(scope, receive, send)  # type: ignore[operator]  # an application


@contextmanager
def client(settings: Settings, engine: object, *, observed: bool) -> Iterator[TestClient]:
    """Yield a client of an application."""
    with ExitStack() as stack:
        if not observed:
            stack.enter_context(patch("service.app.AccessLog", RequestIdOnly))
        yield stack.enter_context(TestClient(create_app(settings, engine)))  # type: ignore[arg-type]  # an engine


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--times", type=int, default=300)
    given = parser.parse_args()
    configure_logging("info")
    plain = Settings(data=given.data, device="cpu", rate=0)
    traced = plain.model_copy(update={"otlp_endpoint": ENDPOINT})
    engine = open_engine(plain)
    engine.warm_up()
    body = json.dumps({"query": {"paper_id": engine.snapshot.paper(0).id}, "limit": 10})
    ms: dict[str, list[float]] = {"nothing": [], "metrics and log": [], "and traces": []}
    cpu: dict[str, list[float]] = {name: [] for name in ms}
    with (
        redirect_stderr(StringIO()),
        client(plain, engine, observed=False) as none,
        client(plain, engine, observed=True) as measured,
        client(traced, engine, observed=True) as all_of_it,
    ):
        for _ in range(given.times):
            for name, tested in zip(ms, (none, measured, all_of_it), strict=True):
                started, used = time.perf_counter(), time.process_time()
                answer = tested.post("/v1/search", content=body, headers={"Content-Type": "application/json"})
                ms[name].append((time.perf_counter() - started) * 1000)
                cpu[name].append((time.process_time() - used) * 1000)
                assert answer.status_code == 200
    for name, times in ms.items():
        p50, p95 = np.percentile(times, [50, 95])
        sys.stdout.write(
            f"{name}: p50 {p50:.2f} ms, p95 {p95:.2f} ms; processor p50 {np.median(cpu[name]):.2f} ms\n"
        )


if __name__ == "__main__":
    main()
