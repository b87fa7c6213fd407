"""Known-item searches: given papers are searched by title or by a question."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from evaluation.sets.files import text_lines
from evaluation.statistics.bootstrap import Interval, difference, interval
from evaluation.statistics.summary import ALL, Figures, Row
from evaluation.tasks.task import TaskOptions
from models.errors import BrokenRowError, InputError
from models.types import ProgressFn
from service.collection.generations import open_engine
from service.search.engine import SearchEngine
from service.search.lookup import find_titles
from service.search.query import SearchQuery, Seed
from service.settings import Settings, settings_of

DEPTH: Final = 10
# The service's default, and the default without each of the scores it adds to sentence vectors.
_DEFAULT: Final = "text, the service's default"
_BASE_QUERY: Final = SearchQuery((), limit=DEPTH, include=frozenset())
_WAYS: Final[Mapping[str, SearchQuery]] = {
    _DEFAULT: _BASE_QUERY,
    "text, all sentences alike": replace(_BASE_QUERY, specificity=0.0),
    "text, without words": replace(_BASE_QUERY, words=0.0),
}
_BY_TITLE: Final = "find by title"
_MEASURES: Final[Mapping[str, Callable[[int | None], float]]] = {
    "success@1": lambda rank: 100.0 * (rank == 1),
    f"success@{DEPTH}": lambda rank: 100.0 * (rank is not None),
    f"nDCG@{DEPTH}": lambda rank: 0.0 if rank is None else 100.0 / math.log2(rank + 1),
}


@dataclass(frozen=True, slots=True)
class KnownItem:
    """A query text, and the ids of the papers that answer it: one, or all with the same title."""

    text: str
    right: frozenset[str]


@dataclass(frozen=True, slots=True)
class ItemRow:
    """A measure of one way to search, in percent; ``difference`` is the default minus this way, paired."""

    way: str
    measure: str
    found: Interval
    difference: Interval | None


@dataclass(frozen=True, slots=True)
class ItemMeasurement:
    """Figures over all items, and by way the items not ranked first: the text, and the rank if found."""

    n_papers: int
    rows: tuple[ItemRow, ...]
    missed: Mapping[str, Sequence[tuple[str, int | None]]]

    @property
    def figures(self) -> tuple[Row, ...]:
        """The rows with each way to search as a system."""
        return tuple(Row("items", one.way, ALL, ALL, one.measure, *astuple(one.found)) for one in self.rows)


@dataclass(frozen=True, slots=True)
class KnownItemTask:
    """The task that searches papers of an indexed collection by their titles."""

    def measure(self, path: Path, options: TaskOptions) -> Figures:
        """Measure how often the paper is first, or among the first ten."""
        settings = settings_of(data=path, device=options.device, ray="")
        found = measure_items(
            settings, n_titles=options.limit_queries or 500, on_progress=options.on_progress
        )
        return Figures(found.n_papers, found.rows[0].found.n, found.figures)


def measure_items(
    settings: Settings,
    *,
    questions: Path | None = None,
    n_titles: int = 500,
    seed: int = 0,
    on_progress: ProgressFn,
) -> ItemMeasurement:
    """Search the collection of ``settings`` for randomly drawn papers by title, or by ``questions``.

    A file of questions has on each line the id of the paper that answers it, a tab and the question. Titles
    are searched as texts and also looked up as titles. Raises InputError, BrokenRowError, SnapshotError.
    """
    engine = open_engine(settings)
    items = _drawn(engine, n_titles, seed) if questions is None else list(_read(engine, questions))
    ways: dict[str, Callable[[str], Sequence[str]]] = {
        name: _by_text(engine, query) for name, query in _WAYS.items()
    }
    if questions is None:
        ways[_BY_TITLE] = lambda text: [
            each.paper.id for each in find_titles(engine, text, limit=DEPTH).results
        ]
    ranks: dict[str, list[int | None]] = {way: [] for way in ways}
    for number, item in enumerate(items):
        on_progress("asking", number, len(items))
        for way, ask in ways.items():
            found = (rank for rank, each in enumerate(ask(item.text), start=1) if each in item.right)
            ranks[way].append(next(found, None))
    on_progress("asking", len(items), len(items))
    missed = {
        way: [(item.text, rank) for item, rank in zip(items, own, strict=True) if rank != 1]
        for way, own in ranks.items()
    }
    return ItemMeasurement(len(engine.snapshot), tuple(_rows(ranks)), missed)


def _rows(ranks: Mapping[str, Sequence[int | None]]) -> Iterator[ItemRow]:
    clusters = {str(number): str(number) for number in range(len(ranks[_DEFAULT]))}
    for way, own in ranks.items():
        for measure, value in _MEASURES.items():
            values, usual = (
                {str(number): value(rank) for number, rank in enumerate(each)}
                for each in (own, ranks[_DEFAULT])
            )
            beside = None if way == _DEFAULT else difference(usual, values, clusters)
            yield ItemRow(way, measure, interval(values, clusters), beside)


def _drawn(engine: SearchEngine, n_titles: int, seed: int) -> list[KnownItem]:
    """Draw papers with a title at random; every paper with the same title counts as right."""
    snapshot = engine.snapshot
    by_title: dict[str, list[str]] = {}
    for position in snapshot.positions.tolist():
        paper = snapshot.paper(position)
        if any(map(str.isalnum, paper.title)):
            by_title.setdefault(paper.title, []).append(paper.id)
    if not by_title:
        raise InputError("No paper of the collection has a title; give questions with --questions.")
    titles = sorted(by_title)
    drawn = np.random.default_rng(seed).permutation(len(titles))[:n_titles]
    return [KnownItem(titles[each], frozenset(by_title[titles[each]])) for each in drawn.tolist()]


def _read(engine: SearchEngine, questions: Path) -> Iterator[KnownItem]:
    n_items = 0
    for line, text in text_lines(questions):
        paper_id, tab, question = text.strip().partition("\t")
        if not paper_id:
            continue
        if not tab or not question.strip():
            raise BrokenRowError(str(questions), line, "no tab between the id of a paper and a question")
        if engine.snapshot.find(paper_id) is None:
            raise BrokenRowError(str(questions), line, "the collection has no paper of that id")
        n_items += 1
        yield KnownItem(question.strip(), frozenset({paper_id}))
    if not n_items:
        raise InputError(f"{questions} holds no question; each line is: ID, a tab, the question.")


def _by_text(engine: SearchEngine, query: SearchQuery) -> Callable[[str], Sequence[str]]:
    def ask(text: str) -> Sequence[str]:
        return [each.paper.id for each in engine.search(replace(query, seeds=(Seed(text=text),))).results]

    return ask
