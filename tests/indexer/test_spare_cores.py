"""Work on spare cores: results in order, no more threads than idle cores, and errors raised."""

import contextvars
import gc
import threading
import weakref
from collections.abc import Callable
from functools import partial
from threading import Barrier, Semaphore

import numpy as np
import pytest

from indexer.index.backends.exact import ExactIndex
from indexer.index.vector_index import JoinedIndex, look_up_here
from indexer.spare_cores import on_spare_cores
from indexer.words.kernels import nearest_of

CALLER: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")


def threads_of(n_tasks: int, idle: Semaphore) -> int:
    """Return how many threads do ``n_tasks`` tasks, each waiting until as many as possible run together."""
    n_idle = idle._value
    together = Barrier(min(n_tasks, max(n_idle, 1)))

    def task() -> int:
        together.wait(timeout=30)
        return threading.get_ident()

    return len(set(on_spare_cores([task] * n_tasks, idle=idle)))


@pytest.mark.parametrize(("n_idle", "n_threads"), [(0, 1), (1, 1), (2, 2), (3, 3), (9, 6)])
def test_no_more_threads_than_idle_cores_or_tasks(n_idle: int, n_threads: int) -> None:
    """The calling thread counts as one core, and all cores are idle again at the end."""
    idle = Semaphore(n_idle)
    assert n_threads == threads_of(6, idle)
    assert n_idle == idle._value


def test_what_is_found_comes_in_order_and_in_the_context_of_who_asks() -> None:
    """Results come in order, and tasks see the context variables of the caller."""
    CALLER.set("me")
    tasks: list[Callable[[], tuple[int, str]]] = [lambda own=own: (own, CALLER.get()) for own in range(50)]  # type: ignore[misc]  # a default binds it
    assert [(own, "me") for own in range(50)] == on_spare_cores(tasks, idle=Semaphore(4))
    assert [] == on_spare_cores([], idle=Semaphore(4))


@pytest.mark.parametrize("place", [0, 3, 7])
def test_an_error_is_raised_and_the_cores_are_idle_again(place: int) -> None:
    """An error in any task is raised, and all cores are idle again."""
    idle = Semaphore(3)

    def task(number: int) -> int:
        if number == place:
            raise IndexError("no such row")
        return number

    tasks: list[Callable[[], int]] = [lambda own=own: task(own) for own in range(8)]  # type: ignore[misc]  # a default binds it
    with pytest.raises(IndexError, match="no such row"):
        on_spare_cores(tasks, idle=idle)
    assert 3 == idle._value


def test_work_within_work_counts_its_thread_once() -> None:
    """A task that starts tasks does not take a second core for its own thread."""
    idle = Semaphore(2)

    def outer() -> int:
        return len(set(on_spare_cores([inner] * 2, idle=idle)))

    def inner() -> int:
        together.wait(timeout=5)
        return threading.get_ident()

    together = Barrier(2)
    assert [2] == on_spare_cores([outer], idle=idle)
    assert 2 == idle._value


def test_an_interruption_leaves_every_core_idle() -> None:
    """A KeyboardInterrupt leaves every core idle."""
    idle = Semaphore(2)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        on_spare_cores([interrupted] * 4, idle=idle)
    assert 2 == idle._value


def test_an_error_keeps_nothing_that_the_tasks_use() -> None:
    """After an error, objects that the tasks used are freed at once, without a garbage collection."""

    class Used:
        """An object that tasks refer to."""

    def fails(used: Used) -> None:
        assert not used

    has_failed = False
    gc.disable()
    try:
        used = Used()
        gone = weakref.ref(used)
        try:
            on_spare_cores([partial(fails, used)] * 3, idle=Semaphore(2))
        except AssertionError:  # pytest.raises would keep the traceback, and with it the object
            has_failed = True
        del used
        assert has_failed
        assert gone() is None
    finally:
        gc.enable()


def test_segments_that_are_searched_at_once_give_the_same() -> None:
    """Segments searched in parallel return the same hits, bit for bit, as one after the other."""
    rows = np.random.default_rng(0).normal(size=(5_000, 16)).astype(np.float32)
    own = np.split(rows, [900, 1_000, 3_000, 4_500])
    indexes, n_rows = [*map(ExactIndex, own)], [*map(len, own)]
    in_turn = JoinedIndex.of(indexes, n_rows).search(rows[:9], 70)
    look_up = partial(look_up_here, indexes, n_rows, worth_threads=0)
    at_once = JoinedIndex(look_up, n_rows).search(rows[:9], 70)
    assert np.array_equal(in_turn.rows, at_once.rows)
    assert np.array_equal(in_turn.scores, at_once.scores)


@pytest.mark.parametrize("n_most", [0, 1, 2, 7, 40, 300])
@pytest.mark.parametrize("n_values", [2, 5, 1_000])
def test_the_nearest_by_words_are_those_of_sorting_all(n_most: int, n_values: int) -> None:
    """If papers are equal, the first are kept; papers without a word or not allowed are left out."""
    generator = np.random.default_rng(n_values)
    sums = generator.integers(0, n_values, size=300) / n_values
    norms, allowed = generator.choice([1.0, 2.0, 4.0], size=300), generator.random(300) < 0.8
    places, cosines = np.empty(n_most, dtype=np.int64), np.empty(n_most)
    n_found = nearest_of(sums, norms, allowed, places, cosines)
    cosine = np.where(allowed, sums / norms, 0.0)
    expected = [int(each) for each in np.lexsort((np.arange(300), -cosine)) if cosine[each] > 0][:n_most]
    assert sorted(expected) == sorted(places[:n_found].tolist())
    np.testing.assert_array_equal(cosine[places[:n_found]], cosines[:n_found])


def test_of_equal_papers_the_first_stay() -> None:
    """A nearer paper replaces the last of the equal, least near ones."""
    places, cosines = np.empty(3, dtype=np.int64), np.empty(3)
    sums = np.array([1.0, 1.0, 1.0, 2.0, 1.0, 2.0])
    assert 3 == nearest_of(sums, np.ones(6), np.ones(6, dtype=bool), places, cosines)
    assert {0, 3, 5} == set(places.tolist())
