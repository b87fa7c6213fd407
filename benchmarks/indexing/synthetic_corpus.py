"""A corpus of any size: real papers in a drawn order, then made-up ones of the same lengths and words.

``python -m benchmarks.indexing.synthetic_corpus CORPUS FOLDER --papers 100000 --added 1000 --single 1000``

Writes ``papers.jsonl``, ``added.jsonl`` and ``single.jsonl`` into the folder, always the same ones. A made-up
paper is a real one with every word replaced by one drawn by frequency, so it has as many sentences of the
same length; its words do not belong together, and there are no new words however large the corpus is. With
``--short`` each abstract ends after two or three sentences.
"""

import argparse
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

SEED = 16
_COUNTED_PAPERS = 50_000  # to count words in: 34 s for all of 188,635
_DRAWN_AT_ONCE = 1_000_000  # words
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?]\s+(?=[A-Z])")


def real_papers(path: Path, *, short: bool) -> list[dict[str, Any]]:
    """Return the papers of a corpus in a drawn order, so that each size has papers of every kind."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        lines = stream.readlines()
    order = np.random.default_rng(SEED).permutation(len(lines))
    kept = ("id", "title", "abstract", "year", "authors")
    papers = [{name: paper[name] for name in kept} for paper in (json.loads(lines[i]) for i in order)]
    if short:
        for number, paper in enumerate(papers):
            paper["abstract"] = _beginning(paper["abstract"], 2 + number % 2)
    return papers


def _beginning(abstract: str, n_sentences: int) -> str:
    """Return the first sentences of an abstract; all of it if there are no more."""
    ends = islice(_SENTENCE_END.finditer(abstract), n_sentences - 1, n_sentences)
    return abstract[: next((end.start() + 1 for end in ends), len(abstract))]


def drawn_words(papers: Sequence[dict[str, Any]], generator: np.random.Generator) -> Iterator[str]:
    """Yield words of ``papers`` without end, each as often as it occurs there."""
    counts = Counter(word for paper in papers for word in _WORD.findall(paper["abstract"].lower()))
    words = np.array(list(counts), dtype=object)
    shares = np.cumsum(np.fromiter(counts.values(), dtype=np.float64, count=len(counts)))
    while True:
        places = np.searchsorted(shares, generator.random(_DRAWN_AT_ONCE) * shares[-1], side="right")
        yield from words[places]


def made_papers(papers: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield made-up papers without end."""
    generator = np.random.default_rng(SEED)
    words = drawn_words(papers[:_COUNTED_PAPERS], generator)

    def another(match: re.Match[str]) -> str:
        drawn = next(words)
        return drawn.capitalize() if match.group()[0].isupper() else drawn  # as at the start of a sentence

    number = 0
    while True:
        for place in generator.integers(len(papers), size=1_000).tolist():
            number += 1
            like = papers[place]
            texts = {name: _WORD.sub(another, like[name]) for name in ("title", "abstract")}
            yield {**like, "id": f"made:{number}", **texts}


def every_paper(path: Path, *, short: bool) -> Iterator[dict[str, Any]]:
    """Yield the real papers, then made-up ones."""
    papers = real_papers(path, short=short)
    yield from papers
    yield from made_papers(papers)


def write(stream: TextIO, papers: Iterator[dict[str, Any]]) -> None:
    """Write papers as JSON lines."""
    stream.writelines(json.dumps(paper, ensure_ascii=False) + "\n" for paper in papers)


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("folder", type=Path)
    for name in ("papers", "added", "single"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--short", action="store_true")
    given = parser.parse_args()
    papers = every_paper(given.corpus, short=given.short)
    for name in ("papers", "added", "single"):
        with (given.folder / f"{name}.jsonl").open("w", encoding="utf-8") as stream:
            write(stream, islice(papers, getattr(given, name)))


if __name__ == "__main__":
    main()
