"""Tests of background work: it repeats, reports a failure once, and ends with the service."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict

from indexer.files.data_folder import CATALOG_FILE
from models.errors import EncoderError, SnapshotMissingError, StorageError
from models.interruption import check_interruption
from service.access.api_keys import Keys
from service.background import RepeatedTask
from service.degradation import Degradation, Outage
from service.store import LazyStore
from tests.support.servers.patience import soon

DEFAULTS = Degradation("tested", "An older generation answers.", "look into the log")
AWAY = Degradation("tested", "The disk is away.", "mount it")


@pytest.fixture
def logged(log_left_alone: None) -> Iterator[list[EventDict]]:
    """Yield the list of log lines."""
    structlog.reset_defaults()
    with capture_logs() as logged:
        yield logged


def ours(logged: list[EventDict]) -> list[EventDict]:
    """Return the log lines of the tested part only; services of other tests may log meanwhile."""
    return [line for line in logged if line.get("part") == DEFAULTS.part]


def test_an_outage_is_logged_once(logged: list[EventDict]) -> None:
    """Each problem of an outage is logged once, and so is its end; users see the outage while it lasts."""
    outage = Outage(DEFAULTS)
    outage.end()
    for problem in ("one", "one", "another"):
        outage.begin(problem)
    assert [DEFAULTS] == outage.degradations()
    outage.begin("another", AWAY)
    assert [AWAY] == outage.degradations()
    outage.end()
    outage.end()
    assert [] == outage.degradations()
    outage.begin("another")
    assert [
        ("failed", "one"), ("failed", "another"), ("works_again", None), ("failed", "another"),
    ] == [(line["event"], line.get("error")) for line in ours(logged)]  # fmt: skip


def test_work_that_fails_is_tried_again(logged: list[EventDict]) -> None:
    """Work goes on after any error, even an unexpected one; each error and the recovery are logged once."""
    errors: list[Exception] = [
        StorageError("away"), SnapshotMissingError("none"), ZeroDivisionError("of a reader"),
    ]  # fmt: skip
    reported: list[list[Degradation]] = []

    def work() -> None:
        reported.append(repeating.degradations())
        if len(reported) <= len(errors):
            raise errors[len(reported) - 1]

    repeating = RepeatedTask(
        work, every_s=0.001, failure=DEFAULTS, failures={StorageError: AWAY, EncoderError: AWAY}
    )
    with repeating:
        soon(lambda: len(reported) > 5)
    assert [[], [AWAY], [DEFAULTS], [DEFAULTS], [], []] == reported[:6]
    assert ["failed", "failed", "failed", "works_again"] == [line["event"] for line in ours(logged)]
    assert ["warning", "warning", "error", "info"] == [line["log_level"] for line in ours(logged)]
    assert "of a reader" not in str(logged)


def test_work_that_failed_may_be_tried_again_later_than_other_work() -> None:
    """After an error work is repeated only when woken or after ``after_failure_s``, then as usual."""
    done: list[int] = []

    def work() -> None:
        done.append(len(done))
        if len(done) <= 2:
            raise StorageError("full")

    with RepeatedTask(work, every_s=0.001, after_failure_s=1e6, failure=DEFAULTS) as repeating:
        for n_failed in (1, 2):
            soon(lambda: len(done) == n_failed and bool(repeating.degradations()))  # noqa: B023 - called here
            time.sleep(0.05)
            assert n_failed == len(done)
            repeating.wake()
        soon(lambda: len(done) > 4)
    assert [] == repeating.degradations()


def test_work_begins_at_once_when_woken_and_again_when_used_again() -> None:
    """Work begins at once, or only when woken with ``at_once=False``; both hold again on the next use."""
    done: list[float] = []
    for at_once in (True, False):
        repeating = RepeatedTask(
            lambda: done.append(time.monotonic()), every_s=1e6, failure=DEFAULTS, at_once=at_once
        )
        for _ in range(2):
            done.clear()
            with repeating:
                if at_once:
                    soon(lambda: len(done) == 1)
                else:
                    time.sleep(0.05)
                    assert [] == done
                repeating.wake()
                soon(lambda: len(done) == 1 + at_once)  # noqa: B023 - called here


def test_what_is_under_way_at_the_end_is_interrupted(logged: list[EventDict]) -> None:
    """Work that takes longer than the time to stop is interrupted, which is not logged as a failure."""
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        try:
            while True:
                check_interruption()
                time.sleep(0.01)
        finally:
            ended.set()

    with RepeatedTask(work, every_s=1e6, failure=DEFAULTS, stop_s=0.1) as repeating:
        assert begun.wait(60)
        assert not ended.is_set()
    assert ended.wait(60)
    soon(lambda: not [each for each in threading.enumerate() if each.name == DEFAULTS.part])
    assert ([], []) == (ours(logged), repeating.degradations())


def test_a_store_is_opened_when_it_is_needed_and_once(tmp_path: Path) -> None:
    """Concurrent first uses share one store, and checking whether the store is there creates no file."""
    opened: list[Keys] = []

    def open_at(place: str | Path) -> Keys:
        opened.append(Keys.open(place))
        return opened[-1]

    store = LazyStore(tmp_path / CATALOG_FILE, open_at)
    store.close()
    assert (False, []) == (store.is_there, list(tmp_path.iterdir()))
    with ThreadPoolExecutor(8) as threads:
        got = set(threads.map(lambda _: store.get(), range(8)))
    assert (got, True) == ({*opened}, store.is_there)
    store.close()
    assert (1, ()) == (len(opened), tuple(store.get().all()))
    store.close()
