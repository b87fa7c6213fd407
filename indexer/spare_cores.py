"""Runs independent work on the processor's cores that no search uses at the moment."""

import os
from collections.abc import Callable, Sequence
from contextvars import copy_context
from itertools import count
from threading import Semaphore, Thread
from typing import Final, TypeVar

_Found = TypeVar("_Found")
# Those that this process may use, where the system says so.
_N_CORES: Final = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_idle: Final = Semaphore(_N_CORES)


def on_spare_cores(tasks: Sequence[Callable[[], _Found]], *, idle: Semaphore = _idle) -> list[_Found]:
    """What each of ``tasks`` gives, in order: computed in this thread, and in one for each ``idle`` core.

    Where every core is busy with such work this thread does all of it, so work for many takes no longer than
    in turn. Raises what a task raises, once those that were begun have ended.
    """
    numbers = count()  # which of the threads gets a number, it does that task
    found: dict[int, _Found] = {}
    failed: list[BaseException] = []

    def work() -> None:
        try:
            while not failed and (number := next(numbers)) < len(tasks):
                found[number] = tasks[number]()
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    is_counted = idle.acquire(blocking=False)  # for this thread
    helpers = _helpers(work, len(tasks) - 1, idle)
    work()
    for helper in helpers:
        helper.join()
    if is_counted:
        idle.release()
    if failed:
        raise failed[0]
    return [found[number] for number in range(len(tasks))]


def _helpers(work: Callable[[], None], most: int, idle: Semaphore) -> list[Thread]:
    """Threads that ``work``, one for each core that is ``idle``, and ``most`` of them."""
    helpers: list[Thread] = []

    def help_out() -> None:
        work()
        idle.release()

    while len(helpers) < most and idle.acquire(blocking=False):
        helper = Thread(target=copy_context().run, args=(help_out,))
        try:
            helper.start()
        except RuntimeError:  # the system gives no more threads
            idle.release()
            break
        helpers.append(helper)
    return helpers
