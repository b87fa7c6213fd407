"""Repeated ids of a corpus are found, however far apart, in 16 bytes per id."""

import random
import tracemalloc

from indexer.corpus.first_seen import FirstSeen


def test_every_repeated_id_is_found() -> None:
    """A repeated id gives the place of its first occurrence, whichever run that is in."""
    seen, first, rng = FirstSeen(n_recent=7), dict[str, int](), random.Random(0)
    for place in range(5_000):
        paper_id = f"p{rng.randrange(3_000)}"
        assert first.get(paper_id) == seen.note(paper_id, place)
        first.setdefault(paper_id, place)


def test_ids_take_few_bytes() -> None:
    """An id takes fewer than 30 bytes, less than Python's own integers would."""
    tracemalloc.start()
    seen = FirstSeen(n_recent=1_000)
    for place in range(20_000):
        seen.note(f"p{place}", place)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 30 * 20_000
