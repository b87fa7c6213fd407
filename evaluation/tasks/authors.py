"""Authors: do affinities with an author's earlier papers order later papers as authorship does?

A substitute for researchers' own ratings (``evaluation.tasks.reviewers``), made from any corpus with years
and authors. It takes authors with enough papers on both sides of a year and rates later papers: the author's
own (5), those of co-authors (4), of co-authors' co-authors (2) and of anybody (1). Author names are compared
as written, so two people with the same name count as one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from jaxtyping import Float64

from evaluation.sets.papers import notes_on_rows
from evaluation.statistics.summary import Figures
from evaluation.tasks.reviewers import (
    ReviewerMeasurement,
    figure_rows,
    loss_differences,
    pair_counts,
)
from evaluation.tasks.task import TaskOptions
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator, load_annotator
from models.checksums import hash64
from models.counts import counted
from models.errors import InputError
from models.types import Paper, ProgressFn
from service.match.affinity import N_NEAREST
from service.match.paper_distances import PaperDistances
from service.match.papers import matched_papers
from service.search.words import QueryVectors, QueryWords, default_weight

# Per author: the most and the fewest papers of a profile, and the number of papers per grade.
_MAX_EARLIER: Final = 20
_MIN_EARLIER: Final = 10
_OF_GRADE: Final = 3
_AUTHOR_GRADE, _COAUTHOR_GRADE, _SECOND_COAUTHOR_GRADE, _OTHER_GRADE = 5.0, 4.0, 2.0, 1.0
# How many nearest papers are averaged; 0: all.
NEAREST: Final = (1, 3, 5, 0)
_SAMPLE: Final = 100


@dataclass(frozen=True, slots=True)
class AuthorSet:
    """Profiles (paper ids) and grades of later papers, both by author name; ``papers`` holds all papers."""

    profiles: Mapping[str, Sequence[str]]
    ratings: Mapping[str, Mapping[str, float]]
    papers: Mapping[str, Paper]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Authors:
    """The task that measures affinity with the earlier papers of ``n_authors`` authors of a corpus."""

    split: int
    n_authors: int

    def measure(self, path: Path, options: TaskOptions) -> Figures:
        """Measure loss, easy and hard pairs of each kind of affinity, and Akin's loss minus that of each."""
        n_authors = min(options.limit_queries or self.n_authors, self.n_authors)
        annotator = load_annotator(options.encoder, device=options.device)
        return measure_authors(
            path,
            annotator,
            split=self.split,
            n_authors=n_authors,
            device=options.device,
            on_progress=options.on_progress,
        ).figures


def author_set(corpus: Path, *, split: int, n_authors: int, seed: int = 0) -> AuthorSet:
    """Draw ``n_authors`` authors with papers before the year ``split`` and others in or after it.

    Raises InputError if the corpus has no such author, and what ``read_corpus`` raises.
    """
    report, papers, n_unusable = CorpusReport(), dict[str, Paper](), 0
    for each in read_corpus(corpus, report=report):
        if each.year is None or not each.authors:
            n_unusable += 1
        else:
            papers[each.id] = each
    earlier, later = (
        _by_author(papers, lambda year: year < split),
        _by_author(papers, lambda year: year >= split),
    )
    eligible = [
        name for name in earlier if len(earlier[name]) >= _MIN_EARLIER and len(later.get(name, ())) >= 2
    ]
    if not eligible:
        raise InputError(
            f"{corpus}: no author has {_MIN_EARLIER} papers before {split} and two since then; give "
            "another --split, or a corpus with years and authors."
        )
    drawn = sorted(eligible, key=lambda name: hash64(f"{seed}:{name}"))[:n_authors]
    everybody = sorted({paper for ids in later.values() for paper in ids})
    profiles, ratings = {}, {}
    for number, name in enumerate(drawn):
        generator = np.random.default_rng([seed, number])
        profiles[name] = sorted(earlier[name], key=lambda each: -(papers[each].year or 0))[:_MAX_EARLIER]
        ratings[name] = dict(_rated(name, papers, earlier, later, everybody, generator))
    used = {each for ids in profiles.values() for each in ids} | {
        each for own in ratings.values() for each in own
    }
    notes = [*notes_on_rows(report, corpus)]
    if n_unusable:
        notes.append(f"Left out: {counted(n_unusable, 'paper')} without a year or authors.")
    return AuthorSet(profiles, ratings, {each: papers[each] for each in sorted(used)}, tuple(notes))


def measure_authors(
    corpus: Path,
    annotator: Annotator,
    *,
    split: int,
    n_authors: int,
    data: Path | None = None,
    device: str = "cpu",
    on_progress: ProgressFn,
) -> ReviewerMeasurement:
    """Measure kinds of distance and ways to combine them over a profile; ``akin`` is what a match uses.

    ``differences`` are Akin's loss minus that of each other system. Raises what ``author_set`` and ``build``
    raise.
    """
    made = author_set(corpus, split=split, n_authors=n_authors)
    with TemporaryDirectory() as scratch:
        place = Path(scratch) / "data" if data is None else data
        snapshot = matched_papers(made.papers, place, annotator, device=device, on_progress=on_progress)
        predicted: dict[str, dict[str, dict[str, float]]] = {}
        kinds = _Kinds(snapshot, annotator, made.papers)
        rated = [(name, paper) for name, own in made.ratings.items() for paper in own]
        for number, (name, paper) in enumerate(rated):
            on_progress("comparing", number, len(rated))
            members = [each for each in made.profiles[name] if each != paper]
            for system, value in _systems(kinds.of(paper, members)):
                predicted.setdefault(system, {}).setdefault(name, {})[paper] = value
        on_progress("comparing", len(rated), len(rated))
    counts = {system: pair_counts(made.ratings, [own]) for system, own in predicted.items()}
    rows = tuple(row for system, own in counts.items() for row in figure_rows(system, own))
    differences = loss_differences(counts)
    return ReviewerMeasurement(len(made.papers), len(made.ratings), len(rated), rows, differences, made.notes)


def _by_author(papers: Mapping[str, Paper], counts: Callable[[int], bool]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for paper in papers.values():
        if paper.year is not None and counts(paper.year):
            for author in dict.fromkeys(paper.authors):
                found.setdefault(author, []).append(paper.id)
    return found


def _rated(
    name: str,
    papers: Mapping[str, Paper],
    earlier: Mapping[str, Sequence[str]],
    later: Mapping[str, Sequence[str]],
    everybody: Sequence[str],
    generator: np.random.Generator,
) -> Iterator[tuple[str, float]]:
    """Yield later papers with their grades, each paper once."""
    coauthors = _coauthors([name], papers, earlier)
    circles = (
        (_AUTHOR_GRADE, [name]),
        (_COAUTHOR_GRADE, sorted(coauthors - {name})),
        (_SECOND_COAUTHOR_GRADE, sorted(_coauthors(sorted(coauthors), papers, earlier) - coauthors - {name})),
    )
    seen: set[str] = set()
    for grade, people in circles:
        theirs = sorted({each for person in people for each in later.get(person, ())} - seen)
        for paper in generator.permutation(theirs)[:_OF_GRADE].tolist():
            yield paper, grade
        seen.update(theirs)
    others = [each for each in generator.permutation(everybody)[:1_000].tolist() if each not in seen]
    for paper in others[:_OF_GRADE]:
        yield paper, _OTHER_GRADE


def _coauthors(
    people: Sequence[str], papers: Mapping[str, Paper], earlier: Mapping[str, Sequence[str]]
) -> set[str]:
    return {
        author for person in people for paper in earlier.get(person, ()) for author in papers[paper].authors
    }


class _Kinds:
    """Distances of every kind between a paper and a profile, and the typical distance of each kind."""

    def __init__(self, snapshot: Snapshot, annotator: Annotator, papers: Mapping[str, Paper]) -> None:
        self._snapshot = snapshot
        self._alone = PaperDistances(snapshot, words=0.0)
        self._weight = default_weight(snapshot.manifest.encoder)
        self._sample = snapshot.sample(_SAMPLE)
        encoded = annotator.encoder.encode(list(papers.values()))
        whole = dict(zip(papers, (each.document for each in encoded), strict=True))
        ids = [snapshot.paper(position).id for position in range(len(snapshot))]
        means = [snapshot.vectors(position).mean(axis=0) for position in range(len(snapshot))]
        self._vectors = {
            "one vector": _unit(np.array([whole[each] for each in ids], dtype=np.float64)),
            "mean of sentences": _unit(np.array(means, dtype=np.float64)),
        }

    def of(
        self, paper_id: str, members: Sequence[str]
    ) -> dict[str, tuple[Float64[np.ndarray, " n_members"], float]]:
        """Return, by kind, the distances to each member and the mean distance to sampled papers."""
        position = self._snapshot.position(paper_id)
        positions = np.array([self._snapshot.position(each) for each in members], dtype=np.int64)
        sample = self._sample[self._sample != position]
        both = np.concatenate([positions, sample])
        by_kind = {"ot": self._alone.distances([self._alone.indexed(position)], both)[0]}
        words = QueryVectors(
            self._snapshot.words, [QueryWords(self._snapshot.paper(position))], weight=self._weight
        )
        by_kind["tf-idf"] = words.distances(both)[0]
        by_kind["ot and words"] = by_kind["ot"] + self._weight * by_kind["tf-idf"]
        for kind, vectors in self._vectors.items():
            by_kind[kind] = 1 - vectors[both] @ vectors[position]
        n = len(positions)
        return {kind: (own[:n], float(own[n:].mean())) for kind, own in by_kind.items()}


def _systems(
    kinds: Mapping[str, tuple[Float64[np.ndarray, " n_members"], float]],
) -> Iterator[tuple[str, float]]:
    """Yield the affinity for each kind of distance and number of nearest papers, absolute and relative."""
    for kind, (distances, usual) in kinds.items():
        ordered = np.sort(distances)
        for n_nearest in NEAREST:
            mean = float(ordered[: n_nearest or None].mean())
            name = f"{kind}, {f'nearest {n_nearest}' if n_nearest else 'mean'}"
            if kind == "ot and words" and n_nearest == N_NEAREST:
                yield "akin", 1 - mean / usual
            else:
                yield f"{name}, relative", 1 - mean / usual
            yield name, -mean


def _unit(vectors: Float64[np.ndarray, "n dim"]) -> Float64[np.ndarray, "n dim"]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Float64[np.ndarray, "n dim"] = vectors / np.where(norms > 0, norms, 1.0)
    return unit
