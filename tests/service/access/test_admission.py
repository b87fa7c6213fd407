"""Tests of admission and deadlines: which requests compute, wait or are refused, and when work ends."""

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from indexer.snapshot.snapshot import Snapshot
from models.errors import DeadlineError, OverloadedError
from service.access.queue import Admission
from service.app import create_app
from service.context import Deadline, check_deadline, set_deadline
from service.search.engine import SearchEngine
from service.search.rerank import Comparison
from service.search.seeds import SeedReader
from service.settings import Settings


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario on a new event loop."""

    async def bounded() -> None:
        await asyncio.wait_for(scenario(), timeout=60)

    asyncio.run(bounded())


def test_as_many_compute_as_may_and_the_rest_wait_their_turn() -> None:
    """Two of five run at once, and they start in the order of arrival."""

    async def scenario() -> None:
        admission = Admission(2, 10)
        running, most, order = 0, 0, []

        async def work(number: int) -> None:
            nonlocal running, most
            async with admission.place(Deadline(10.0)):
                order.append(number)
                running += 1
                most = max(most, running)
                await asyncio.sleep(0.02)
                running -= 1

        await asyncio.gather(*(work(number) for number in range(5)))
        assert (2, [0, 1, 2, 3, 4]) == (most, order)

    run(scenario)


def test_a_full_queue_turns_away_at_once() -> None:
    """With one request at work and one waiting, the next is refused at once, with a time to come again."""

    async def scenario() -> None:
        admission = Admission(1, 1)
        async with admission.place(Deadline(10.0)):
            waiting = asyncio.ensure_future(_pass(admission))
            await asyncio.sleep(0.01)
            assert _refusal_at_once(admission).retry_after_s is not None
        await waiting
        await _pass(admission)

    run(scenario)


async def _pass(admission: Admission, seconds: float = 10.0) -> None:
    async with admission.place(Deadline(seconds)):
        pass


def _refusal_at_once(admission: Admission, seconds: float = 10.0) -> OverloadedError:
    """Return the error of a request that is refused without any waiting."""
    asking = _pass(admission, seconds)
    with pytest.raises(OverloadedError) as refused:
        asking.send(None)  # runs as far as the first wait
    return refused.value


def test_nobody_waits_for_a_turn_that_would_come_too_late() -> None:
    """With a mean of 10 s per request, one with a deadline of 1 s is refused although the queue has room."""

    async def scenario() -> None:
        admission = Admission(1, 100, mean_s=10.0)
        await _pass(admission, 1.0)  # starts, as no request is at work
        async with admission.place(Deadline(60.0)):
            _refusal_at_once(admission, 1.0)

    run(scenario)


def test_it_is_idle_while_a_place_is_free() -> None:
    """Admission is idle exactly while a place is free, so that background work waits otherwise."""

    async def scenario() -> None:
        admission = Admission(2, 1)
        seen = [admission.idle]
        async with AsyncExitStack() as stack:
            for _ in range(2):
                await stack.enter_async_context(admission.place(Deadline(10.0)))
                seen.append(admission.idle)
        assert [True, True, False, True] == [*seen, admission.idle]

    run(scenario)


def test_a_turn_that_does_not_come_in_time_is_given_up() -> None:
    """The wait ends at the deadline, and frees its place in the queue."""

    async def scenario() -> None:
        admission = Admission(1, 1)
        async with admission.place(Deadline(10.0)):
            for _ in range(3):
                with pytest.raises(OverloadedError):
                    await _pass(admission, 0.02)
        await _pass(admission)

    run(scenario)


def test_a_client_that_goes_leaves_the_queue() -> None:
    """Abandoning a waiting request frees its place at once."""

    async def scenario() -> None:
        admission = Admission(1, 1)
        async with admission.place(Deadline(10.0)):
            deadline = Deadline(math.inf)

            async def wait() -> None:
                async with admission.place(deadline):
                    pytest.fail("it had gone")

            waiting = asyncio.ensure_future(wait())
            await asyncio.sleep(0.01)
            deadline.abandon()
            with pytest.raises(OverloadedError):
                await waiting
            admission.expect_room(10.0)

    run(scenario)


def test_the_place_is_free_once_left() -> None:
    """Leaving early admits the next request, and leaving twice admits no second one."""

    async def scenario() -> None:
        admission = Admission(1, 0)
        async with admission.place(Deadline(10.0)) as leave:
            leave()
            leave()
            async with admission.place(Deadline(10.0)):
                with pytest.raises(OverloadedError):
                    await _pass(admission)
        await _pass(admission)

    run(scenario)


def test_a_deadline_passes_by_time_or_by_going() -> None:
    """Work ends if its deadline passes or is abandoned; without a deadline it does not end."""

    async def scenario() -> None:
        check_deadline()
        for deadline in (Deadline(0.0), Deadline(100.0)):
            deadline.abandon()
            set_deadline(deadline)
            with pytest.raises(DeadlineError):
                await asyncio.to_thread(check_deadline)

    run(scenario)


class Wire:
    """A connection to an application that stores the messages sent, with a client that may disconnect."""

    def __init__(self, app: FastAPI, body: bytes) -> None:
        self._app = app
        self._body = body
        self.gone = asyncio.Event()
        self.sent: list[Any] = []

    async def receive(self) -> Any:
        """Return the body, and then wait for the client to disconnect."""
        if self._body:
            body, self._body = self._body, b""
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        """Store a message of the application."""
        self.sent.append(message)

    async def search(self) -> int:
        """Send the request and return the status of its answer."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/v1/search",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"content-type", b"application/json")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 1),
            "state": {},
        }
        await self._app(scope, self.receive, self.send)
        status: int = self.sent[0]["status"]
        return status


BODY = b'{"query": {"paper_id": "demo:p03-m07"}, "limit": 1}'


class Slow:
    """An engine whose searches wait at a gate before they resolve seeds, and count how many did."""

    def __init__(self, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
        def never() -> Any:
            raise AssertionError

        self.engine = SearchEngine(snapshot, never, n_candidates=10)
        self.gate = threading.Event()
        self.n_resolved = 0
        self.n_ranked = 0
        resolve = SeedReader.resolve

        def slow(*given: Any) -> Any:
            self.n_resolved += 1
            self.gate.wait(60)
            return resolve(*given)

        monkeypatch.setattr(SeedReader, "resolve", slow)


def serve(
    slow: Slow, tmp_path: Path, scenario: Callable[[FastAPI], Awaitable[None]], **settings: int
) -> None:
    """Run a scenario with the service over a slow engine."""

    async def served() -> None:
        app = create_app(Settings(data=tmp_path, **settings), slow.engine)  # type: ignore[arg-type]  # keywords pass through
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(app.router.lifespan_context(app))
            await scenario(app)

    run(served)


async def until(happened: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    while not happened():
        await asyncio.sleep(0.005)


@pytest.fixture
def slow(hashed_snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Return a slow engine over the demo corpus."""
    return Slow(hashed_snapshot, monkeypatch)


def test_a_full_service_says_when_to_come_back(slow: Slow, tmp_path: Path) -> None:
    """With one at work and two waiting, seven are refused with Retry-After; then the three succeed."""

    async def scenario(app: FastAPI) -> None:
        wires = [Wire(app, BODY) for _ in range(10)]
        tasks = [asyncio.ensure_future(wire.search()) for wire in wires]
        await until(lambda: sum(task.done() for task in tasks) == 7 and slow.n_resolved == 1)
        refused = [wire for wire, task in zip(wires, tasks, strict=True) if task.done()]
        assert {503} == {wire.sent[0]["status"] for wire in refused}
        assert all(b"retry-after" in dict(wire.sent[0]["headers"]) for wire in refused)
        slow.gate.set()
        assert [200] * 3 + [503] * 7 == sorted(await asyncio.gather(*tasks))

    serve(slow, tmp_path, scenario, running=1, queue=2)


def test_work_ends_at_the_deadline(slow: Slow, tmp_path: Path) -> None:
    """A search that passes its deadline gets 504 with a problem."""

    async def scenario(app: FastAPI) -> None:
        wire = Wire(app, BODY)
        task = asyncio.ensure_future(wire.search())
        await until(lambda: slow.n_resolved == 1)  # the deadline is running
        await asyncio.sleep(1.1)
        slow.gate.set()
        assert 504 == await task
        assert b"urn:akin:problem:deadline" in wire.sent[1]["body"]
        assert b"fewer results" in wire.sent[1]["body"]

    serve(slow, tmp_path, scenario, deadline_ms=1000)


def test_nobody_works_for_a_client_that_has_gone(
    slow: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If clients leave, a search at work stops, a waiting one never starts, and the place is free."""
    ranked: list[object] = []
    rank = Comparison.rank

    def counted(*given: Any, **how: Any) -> Any:
        ranked.append(given)
        return rank(*given, **how)

    monkeypatch.setattr(Comparison, "rank", counted)

    async def scenario(app: FastAPI) -> None:
        wires = [Wire(app, BODY), Wire(app, BODY)]
        tasks = [asyncio.ensure_future(wire.search()) for wire in wires]
        await until(lambda: slow.n_resolved == 1)
        for wire in wires:
            wire.gone.set()
        await until(tasks[1].done)
        slow.gate.set()
        await asyncio.gather(*tasks)
        assert (1, []) == (slow.n_resolved, ranked)
        last = Wire(app, BODY)
        await last.search()
        assert ranked

    # With the usual deadline, that would end the work too.
    serve(slow, tmp_path, scenario, running=1, queue=2, deadline_ms=3_600_000)
