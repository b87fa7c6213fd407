"""Title lookup: speed, size and tolerance of typing errors; needs no snapshot.

python -m benchmarks.relevance.titles ../shared/data/corpus.jsonl.gz --papers 20000

Suggestions are requested keystroke by keystroke, starting at some word of a title; lookups are titles with
one character in twenty replaced.
"""

import argparse
import gzip
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from service.resolve.titles import SegmentTitles, Titles

LIMIT = 10
_MAX_TYPED = 24


def times_ms(ask: Callable[[str], object], texts: Sequence[str]) -> list[float]:
    """Return how long each of ``asked`` takes, in milliseconds."""
    times = []
    for text in texts:
        started = time.perf_counter()
        ask(text)
        times.append((time.perf_counter() - started) * 1000)
    return times


def show(label: str, times: Sequence[float]) -> None:
    """Print median, 95th percentile and maximum on a line."""
    p95 = statistics.quantiles(times, n=20)[-1]
    print(f"{label:48}{statistics.median(times):8.1f}{p95:8.1f}{max(times):8.1f} ms")


def size_of(titles: Titles) -> int:
    """Return the bytes of memory of the lookup."""
    held = vars(titles).values()
    arrays = sum(each.nbytes for each in held if isinstance(each, np.ndarray))
    lists = [each for each in held if isinstance(each, list)]
    texts = {id(text): sys.getsizeof(text) for each in lists for text in each}
    return arrays + sum(map(sys.getsizeof, lists)) + sum(texts.values())


def typed(title: str, rng: random.Random) -> list[str]:
    """Return the text after each keystroke of someone who starts at a word of ``title``."""
    words = title.split()
    text = " ".join(words[rng.randrange(len(words)) :])[:_MAX_TYPED]
    return [text[:n] for n in range(1, len(text) + 1) if any(map(str.isalnum, text[:n]))]


def mistyped(title: str, rng: random.Random) -> str:
    """Replace about one character in twenty of ``title``."""
    return "".join(rng.choice("aeinorst") if rng.random() < 0.05 else character for character in title)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--papers", type=int, default=20_000)
    parser.add_argument("--sample", type=int, default=200)
    arguments = parser.parse_args()
    with gzip.open(arguments.corpus, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["title"] for line in islice(lines, arguments.papers)]
    column = pa.chunked_array([texts])
    wall, processor = time.perf_counter(), time.process_time()
    titles = Titles([SegmentTitles(column)], [np.arange(len(column))])
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    size = size_of(titles)
    print(f"{len(texts):,} titles: built in {wall:.2f} s ({processor:.2f} s of processor), {size:,} bytes, ")
    print(f"{size / len(texts):.0f} a title{'':34}{'median':>8}{'p95':>8}{'most':>8}")
    rng = random.Random(0)  # noqa: S311 - a sample
    sample = rng.sample(range(len(texts)), arguments.sample)
    keystrokes = [text for i in sample for text in typed(texts[i], rng)]
    show(
        f"suggestions, {len(keystrokes):,} keystrokes",
        times_ms(lambda text: titles.beginning(text, limit=LIMIT), keystrokes),
    )
    worst = " ".join("abcdefghijklmnopqrstuvwxyz0123456789")
    show(
        "the same, every letter as a word of its own",
        times_ms(lambda text: titles.beginning(text, limit=LIMIT), [worst] * 20),
    )
    mistyped_texts = {i: mistyped(texts[i], rng) for i in sample}
    show(
        "mistyped titles",
        times_ms(lambda text: titles.like(text, limit=LIMIT), list(mistyped_texts.values())),
    )
    longest = max(texts, key=len)
    show(
        f"the longest title, {len(longest)} characters",
        times_ms(lambda text: titles.like(text, limit=LIMIT), [longest] * 20),
    )
    first = sum(
        found[0].position == i for i, text in mistyped_texts.items() if (found := titles.like(text, limit=1))
    )
    print(f"mistyped titles that come first: {first} of {len(mistyped_texts)}")


if __name__ == "__main__":
    main()
