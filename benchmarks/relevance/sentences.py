"""Sentence splitting: time on hostile text, and boundary quality on abstracts given as sentence lists.

python -m benchmarks.relevance.sentences PAPERS.jsonl.gz CSABSTRUCT/train.jsonl
"""

import argparse
import gzip
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import sentencex

from models.text.sentences import split_sentences

HOSTILE_BYTES = 64 * 1024
LIMIT_S = 0.050
UNITS = (
    "a", ".", "(", ")", "\n", " ", "Mr. ", "et al. ", "e.g. ", "U.S. ", "e\u0301", "\u0301", "😀", "\u200b",
    "A. ", "A.", '"A. ', '"Ab. ', "“", "'", "“a. B", "A b. ", "... ", ".)", "你好。世界！", "a\n\n", "• ",
    "$a ", "$x. Y$ ", "( a. B ", "[a. B] ", "[1]", "!?", "0.5 ", "http://a.b/c.d?e=f ", "\0",
    "Привет. 你好。 مرحبا؟ Hello! नमस्ते। ",
)  # fmt: skip


def hostile_text(unit: str) -> str:
    """Repeat ``unit`` to HOSTILE_BYTES of UTF-8."""
    return unit * (HOSTILE_BYTES // len(unit.encode()))


def best_time(split: Callable[[str], object], text: str) -> float:
    """Return the CPU seconds of the fastest of five runs, so that other processes do not count."""
    times = []
    for _ in range(5):
        started = time.process_time()
        split(text)
        times.append(time.process_time() - started)
    return min(times)


def boundaries(text: str) -> set[int]:
    """Return the ends of our sentences, except the last."""
    return {sentence.end for sentence in split_sentences(text)[:-1]}


def sentencex_boundaries(text: str) -> set[int]:
    """Return the ends of sentencex's sentences, except the last, without trailing white space."""
    found = sentencex.get_sentence_boundaries("en", text)
    pieces = [(each["start_index"], text[each["start_index"] : each["end_index"]].rstrip()) for each in found]
    return {start + len(piece) for start, piece in pieces if piece} - {len(text)}


def given_sentences(path: Path) -> Iterator[list[str]]:
    """Yield the abstracts of ``path`` that are lists, without empty sentences."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as lines:
        for line in lines:
            record = orjson.loads(line)
            parts = record.get("abstract", record.get("sentences"))
            if isinstance(parts, list) and (
                kept := [" ".join(part.split()) for part in parts if part.strip()]
            ):
                yield kept


def quality(split: Callable[[str], set[int]], abstracts: list[list[str]]) -> str:
    """Return precision, recall, the share of abstracts wholly right, and abstracts per CPU second."""
    right = found = given = whole = 0
    started = time.process_time()
    for parts in abstracts:
        ends, position = set(), -1
        for part in parts:
            position += len(part) + 1
            ends.add(position)
        expected, actual = ends - {position}, split(" ".join(parts))
        right, found, given = right + len(expected & actual), found + len(actual), given + len(expected)
        whole += expected == actual
    rate = len(abstracts) / (time.process_time() - started)
    return f"P {right / found:.2%}  R {right / given:.2%}  whole {whole / len(abstracts):.1%}  {rate:,.0f}/s"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("given", nargs="*", type=Path, help="JSON lines with abstract or sentences as a list")
    for unit in UNITS:
        text = hostile_text(unit)
        took_s, alone_s = best_time(split_sentences, text), best_time(sentencex_boundaries, text)
        mark = "  OVER" if took_s > LIMIT_S else ""
        print(f"{unit!r:45} {took_s * 1e3:7.1f} ms   sentencex alone {alone_s * 1e3:7.1f} ms{mark}")
    for path in parser.parse_args().given:
        abstracts = list(given_sentences(path))
        print(f"{path.name}: {len(abstracts):,} abstracts, {sum(map(len, abstracts)):,} sentences")
        print(f"  sentencex alone  {quality(sentencex_boundaries, abstracts)}")
        print(f"  with our layer   {quality(boundaries, abstracts)}")


if __name__ == "__main__":
    main()
