"""Runs independent work on the processor's cores that no search uses at the moment."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from itertools import count
from threading import Semaphore, Thread
from typing import Final, TypeVar

_Found = TypeVar("_Found")
# Those that this process may use, where the system says so.
_N_CORES: Final = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_idle: Final = Semaphore(_N_CORES)
_counted: ContextVar[bool] = ContextVar("counted", default=False)  # whether a thread has its core


def on_spare_cores(
    tasks: Sequence[Callable[[], _Found]], *, worth_it: bool = True, idle: Semaphore = _idle
) -> list[_Found]:
    """What each of ``tasks`` gives, in order: computed in this thread, and in one for each ``idle`` core.

    Where every core is busy with such work, or threads are not ``worth_it``, this one does all of it: work
    for many takes no longer than in turn. Raises what a task raises, once those that were begun have ended.
    """
    if not worth_it:
        return [task() for task in tasks]
    numbers = count()  # the thread that takes a number does that task
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
            del error  # its traceback would keep itself, and all that the tasks use, until a collection
    return [found[number] for number in range(len(tasks))]


@contextmanager
def _own_core(idle: Semaphore) -> Iterator[None]:
    """Counts this thread as one that uses a core, if there is an ``idle`` one, and it has none yet."""
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
    """Threads that ``work``, one for each ``idle`` core and ``most`` of them; waits for them in the end."""
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
