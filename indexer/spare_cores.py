"""Running independent tasks on the processor cores that are idle at the moment."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from itertools import count
from threading import Semaphore, Thread
from typing import Final, TypeVar

_Found = TypeVar("_Found")
# The cores that this process may use, or all cores if the system does not report them.
N_CORES: Final = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_idle: Final = Semaphore(N_CORES)
_counted: ContextVar[bool] = ContextVar("counted", default=False)  # whether a thread has its core


def on_spare_cores(
    tasks: Sequence[Callable[[], _Found]], *, worth_it: bool = True, idle: Semaphore = _idle
) -> list[_Found]:
    """Return the result of each task, in order, computed in this thread and in one more per ``idle`` core.

    If every core is busy with such work, or threads are not ``worth_it``, this thread runs all tasks, so many
    callers together take no longer than one after another. If a task raises, no other task is begun, and its
    error is raised once the begun tasks have ended.
    """
    if not worth_it:
        return [task() for task in tasks]
    numbers = count()  # the thread that takes a number runs that task
    found: dict[int, _Found] = {}
    failed: list[BaseException] = []

    def work() -> None:
        try:
            while not failed and (number := next(numbers)) < len(tasks):
                found[number] = tasks[number]()
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    with _own_core(idle), _helpers(work, len(tasks) - 1, idle):
        work()
    if failed:
        error = failed.pop()
        failed.clear()
        try:
            raise error
        finally:
            del error  # else its traceback keeps all data of the tasks alive until a garbage collection
    return [found[number] for number in range(len(tasks))]


@contextmanager
def _own_core(idle: Semaphore) -> Iterator[None]:
    """Count this thread as using a core, if a core is ``idle`` and the thread is not counted yet."""
    if _counted.get() or not idle.acquire(blocking=False):
        yield
        return
    before = _counted.set(True)
    try:
        yield
    finally:
        _counted.reset(before)
        idle.release()


@contextmanager
def _helpers(work: Callable[[], None], most: int, idle: Semaphore) -> Iterator[None]:
    """Run ``work`` in a thread per ``idle`` core, in at most ``most``; wait for them at the end."""
    helpers: list[Thread] = []

    def help_out() -> None:
        _counted.set(True)
        try:
            work()
        finally:
            idle.release()

    try:
        while len(helpers) < most and idle.acquire(blocking=False):
            helper = Thread(target=copy_context().run, args=(help_out,))
            try:
                helper.start()
            except RuntimeError:  # the system gives no more threads
                idle.release()
                break
            helpers.append(helper)
        yield
    finally:
        for helper in helpers:
            helper.join()
