"""Tests of texts that are encoded in one batch because they came at the same moment."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import numpy as np
import pytest

from models.encoders.hashing import HashingEncoder
from models.errors import DeadlineError, EncoderError
from models.interruption import check_interruption, set_interruption
from models.types import EncodedPaper, Paper
from service.cache.together import EncoderTogether
from tests.support.examples.models.tiny_bert import paper


class Gated:
    """An encoder that waits in each call until ``gate`` is open, and keeps the titles of each batch."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate, self.spec = threading.Event(), HashingEncoder().spec

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode as the hashing encoder; raise EncoderError if a title is ``broken``."""
        self.batches.append([paper.title for paper in papers])
        assert self.gate.wait(60)
        if any(paper.title == "broken" for paper in papers):
            raise EncoderError("A broken title.")
        return HashingEncoder().encode(papers)


def begun(pool: ThreadPoolExecutor, shared: EncoderTogether, encoder: Gated) -> Future[list[EncodedPaper]]:
    """Encode a first paper; return its future once it is being computed."""
    first = pool.submit(shared.encode, [paper("first", "We sort.")])
    while not encoder.batches:
        time.sleep(0.001)
    return first


def together(
    titles: Sequence[str],
    *,
    encoder: Gated,
    layers: Callable[[str], Sequence[int]] = lambda title: (),
    most: int = 8,
    most_chars: int | None = None,
) -> list[Future[list[EncodedPaper]]]:
    """Encode a first paper; while it is computed, request ``titles``, one by one; return their futures."""
    shared = EncoderTogether(encoder, most=most, most_chars=most_chars)
    requested: list[Future[list[EncodedPaper]]] = []
    with ThreadPoolExecutor(len(titles) + 1) as pool:
        for n_before, title in enumerate(["first", *titles]):
            requested.append(pool.submit(shared.encode, [paper(title, "We sort.")], layers=layers(title)))
            waited_until = time.monotonic() + 60
            while len(shared._waiting) < n_before or not encoder.batches:
                assert time.monotonic() < waited_until
                time.sleep(0.001)
        encoder.gate.set()
    return requested[1:]


def test_what_is_requested_during_a_batch_is_the_next_one() -> None:
    """Texts that wait for their turn are encoded in one batch, each with its own vectors."""
    encoder = Gated()
    found = together(["a", "b", "c"], encoder=encoder, most=8)
    assert [["first"], ["a", "b", "c"]] == encoder.batches
    for title, future in zip("abc", found, strict=True):
        (expected,) = HashingEncoder().encode([paper(title, "We sort.")])
        (own,) = future.result()
        np.testing.assert_array_equal(own.document, expected.document)


@pytest.mark.parametrize(
    ("options", "batches"),
    [
        ({"most": 2}, [["a", "b"], ["c"]]),
        ({"most": 8, "most_chars": 20}, [["a", "b"], ["c"]]),
        ({"most": 8, "most_chars": 1}, [["a"], ["b"], ["c"]]),
        ({"most": 8, "layers": lambda title: (1,) if title == "b" else ()}, [["a"], ["b"], ["c"]]),
    ],
    ids=["papers", "characters", "one at least", "layers"],
)
def test_a_batch_of_several_requests_is_bounded(options: dict[str, Any], batches: list[list[str]]) -> None:
    """By the number of papers and of characters; requests of other layers are never in one batch."""
    encoder = Gated()
    together(["a", "b", "c"], encoder=encoder, **options)
    assert [["first"], *batches] == encoder.batches


def test_an_error_is_raised_to_the_request_that_caused_it() -> None:
    """After an error in a batch each request is encoded alone."""
    encoder = Gated()
    a, broken, c = together(["a", "broken", "c"], encoder=encoder, most=8)
    assert [["first"], ["a", "broken", "c"], ["a"], ["broken"], ["c"]] == encoder.batches
    with pytest.raises(EncoderError, match="A broken title"):
        broken.result()
    assert a.result()
    assert c.result()


def test_a_request_that_is_interrupted_leaves_the_others_alone() -> None:
    """It no longer waits for its turn, and those after it are encoded."""
    encoder = Gated()
    shared = EncoderTogether(encoder, most=8)
    with ThreadPoolExecutor(3) as pool:
        first = begun(pool, shared, encoder)

        def interrupted() -> None:
            set_interruption(raising)
            shared.encode([paper("late", "We sort.")])

        with pytest.raises(DeadlineError):
            pool.submit(copy_context().run, interrupted).result()
        other = pool.submit(shared.encode, [paper("other", "We sort.")])
        encoder.gate.set()
        assert first.result()
        assert other.result()
    assert [["first"], ["other"]] == encoder.batches


def raising() -> None:
    """Interrupt."""
    raise DeadlineError("Too late.")


def test_a_batch_goes_on_when_the_thread_that_computes_it_is_interrupted() -> None:
    """Whoever computes a batch does so for others too, so its own deadline does not count meanwhile."""
    late: list[int] = []

    class Slow(Gated):
        def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
            encoded = super().encode(papers)
            if len(papers) == 2:
                late.append(threading.get_ident())
            check_interruption()
            return encoded

    def requested(title: str) -> list[EncodedPaper]:
        set_interruption(lambda: raising() if threading.get_ident() in late else None)
        return shared.encode([paper(title, "We sort.")])

    encoder = Slow()
    shared = EncoderTogether(encoder, most=8)
    with ThreadPoolExecutor(3) as pool:
        first = begun(pool, shared, encoder)
        others = [pool.submit(copy_context().run, requested, title) for title in "ab"]
        while len(shared._waiting) < 2:
            time.sleep(0.001)
        encoder.gate.set()
        assert all(len(each.result()) == 1 for each in (first, *others))
    assert late
