"""Reviewers: does affinity order the papers that a researcher rated as the researcher does?

Stelmakh, Wieting, Xi, Neubig, Shah, "A Gold Standard Dataset for the Reviewer Assignment Problem" (TMLR
2025): researchers rated from 1 to 5 how well they could review papers they had read. The loss is the share of
wrongly ordered pairs of papers of one researcher; a pair weighs the difference of its ratings, and a tie in
the prediction counts half. "easy" and "hard" are unweighted shares of rightly ordered pairs: easy pairs have
one paper rated at least 4 and one at most 2, hard pairs two papers rated at least 4, differently. Figures are
means over the datasets, which are draws of the same researchers' profiles.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from jaxtyping import Float64

from evaluation.sets.reviewers import DEFAULT_DATASETS, EVALUATIONS, ReviewerDataset, ReviewerSet
from evaluation.statistics.bootstrap import Difference, bounds
from evaluation.statistics.multiple import correct_named
from evaluation.statistics.summary import ALL, Comparison, Figures, Row, SystemComparison
from evaluation.tasks.task import TaskOptions
from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator, load_annotator
from models.counts import counted
from models.errors import InputError
from models.types import ProgressFn
from service.match.affinity import Affinities
from service.match.paper_distances import PaperDistances
from service.match.papers import matched_papers

# Measures over all pairs, the main one first. For the loss, lower is better.
LOSS, EASY, HARD = "loss", "easy", "hard"

# By reviewer, without "~", then by paper.
Ratings = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class ReviewerMeasurement:
    """The results of ``akin`` and of published predictions over ``n_reviewers`` researchers.

    ``n_papers`` are the papers compared, of profiles and to be rated.
    ``differences`` are Akin's loss minus that of each other algorithm, in percentage points.
    """

    n_papers: int
    n_reviewers: int
    n_ratings: int
    rows: tuple[Row, ...]
    differences: tuple[tuple[str, Comparison], ...]
    notes: tuple[str, ...]

    @property
    def compared(self) -> tuple[SystemComparison, ...]:
        """The differences with the names of both systems."""
        return tuple(SystemComparison("akin", name, each) for name, each in self.differences)

    @property
    def figures(self) -> Figures:
        """The results as those of a task, with each researcher as a query."""
        ratings = f"{counted(self.n_ratings, 'rating')}."
        return Figures(self.n_papers, self.n_reviewers, self.rows, self.compared, (ratings, *self.notes))


@dataclass(frozen=True, slots=True)
class Reviewers:
    """The task that measures affinity on the gold standard: on the ``datasets`` with this prefix."""

    datasets: str = DEFAULT_DATASETS

    def measure(self, path: Path, options: TaskOptions) -> Figures:
        """Measure loss, easy and hard pairs of Akin and of the predictions found, and Akin minus each."""
        annotator = load_annotator(options.encoder, device=options.device)
        return measure_reviewers(
            path,
            annotator,
            datasets=self.datasets,
            device=options.device,
            on_progress=options.on_progress,
        ).figures


def measure_reviewers(
    folder: Path,
    annotator: Annotator,
    *,
    data: Path | None = None,
    datasets: str = DEFAULT_DATASETS,
    device: str = "cpu",
    on_progress: ProgressFn,
) -> ReviewerMeasurement:
    """Measure affinity on the gold standard in ``folder``, and the predictions found there.

    ``data`` is a data folder that keeps encoded papers between runs; each paper is encoded once, however many
    datasets it is in. Raises CollectionMissingError, BrokenRowError, CorpusFormatError, InputError if no
    rating counts, and what ``build`` raises.
    """
    reader = ReviewerSet()
    ratings, found = reader.ratings(folder), reader.datasets(folder, datasets)
    read = [reader.dataset(path) for path in found]
    _check_any_counts(ratings, read, folder)
    papers = {paper.id: paper for dataset in read for paper in dataset.papers.values()}
    with TemporaryDirectory() as scratch:
        place = Path(scratch) / "data" if data is None else data
        snapshot = matched_papers(papers, place, annotator, device=device, on_progress=on_progress)
        ours = []
        for number, dataset in enumerate(read):
            on_progress("datasets", number, len(read))
            ours.append(_predicted(snapshot, ratings, dataset))
        on_progress("datasets", len(read), len(read))
    theirs = reader.predictions(folder, [path.name for path in found])
    systems = {"akin": ours} | {name: own for name, own in theirs.items() if name != "akin"}
    kept, notes = _kept(ratings, ours)
    if n_unusable := sum(dataset.n_unusable for dataset in read):
        notes.append(f"Left out: {counted(n_unusable, 'row')} of the datasets without a usable paper.")
    counts = {name: pair_counts(kept, predictions) for name, predictions in systems.items()}
    return ReviewerMeasurement(
        len(papers),
        len(kept),
        sum(map(len, kept.values())),
        tuple(row for name, own in counts.items() for row in figure_rows(name, own)),
        loss_differences(counts),
        tuple(notes),
    )


def _check_any_counts(ratings: Ratings, datasets: Sequence[ReviewerDataset], folder: Path) -> None:
    """Raise InputError if no researcher rated two papers differently that are in all ``datasets``."""
    nameless = [name for name in ratings if not all(each.profiles.get(name) for each in datasets)]
    papers = dict.fromkeys(paper for rated in ratings.values() for paper in rated)
    unknown = [paper for paper in papers if not all(paper in each.papers for each in datasets)]
    lost = set(unknown)
    for name in ratings.keys() - set(nameless):
        if len({rating for paper, rating in ratings[name].items() if paper not in lost}) > 1:
            return
    raise InputError(
        f"No two ratings of {folder / EVALUATIONS} can be compared: a researcher has to rate two papers "
        f"differently. Of {len(ratings)} researchers {len(nameless)} have no profile in each of "
        f"{len(datasets)} datasets{_some(nameless)}; of {len(papers)} papers {len(unknown)} are not in each"
        f"{_some(unknown)}. ParticipantID must be the name of a file in archives without .jsonl, and Paper1 "
        "and so on must be keys of submissions.json; fetch both from the source of the ratings."
    )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(each[:80]) for each in names[:3]) + (" ..." if names[3:] else "")
    return f" ({shown})" if names else ""


def _predicted(snapshot: Snapshot, ratings: Ratings, dataset: ReviewerDataset) -> dict[str, dict[str, float]]:
    rated_by: dict[str, list[str]] = {}
    for reviewer, rated in ratings.items():
        for paper in rated:
            if dataset.profiles.get(reviewer) and paper in dataset.papers:
                rated_by.setdefault(paper, []).append(reviewer)
    nearness = PaperDistances(snapshot)
    profiles = {name: snapshot.find_all(ids) for name, ids in dataset.profiles.items() if ids}
    affinities = Affinities(nearness, profiles)
    place = {name: number for number, name in enumerate(affinities.names)}
    predicted: dict[str, dict[str, float]] = {}
    for paper, reviewers in rated_by.items():
        among = np.array([place[reviewer] for reviewer in reviewers])
        row = affinities.of([nearness.indexed(snapshot.position(paper))], among)[0]
        for reviewer, affinity in zip(reviewers, row.tolist(), strict=True):
            predicted.setdefault(reviewer, {})[paper] = affinity
    return predicted


def _kept(ratings: Ratings, ours: Sequence[Ratings]) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Return the ratings that have a prediction in every dataset, and a note on how many have none."""
    kept = {
        reviewer: {
            paper: rating
            for paper, rating in rated.items()
            if all(paper in own.get(reviewer, {}) for own in ours)
        }
        for reviewer, rated in ratings.items()
    }
    n_lost = sum(map(len, ratings.values())) - sum(map(len, kept.values()))
    note = f"{n_lost} ratings are of papers or researchers that are not in a dataset; they do not count."
    return {reviewer: rated for reviewer, rated in kept.items() if rated}, [note] if n_lost else []


def pair_counts(ratings: Ratings, datasets: Sequence[Ratings]) -> Float64[np.ndarray, "n_reviewers n_counts"]:
    """Return the ``_sums`` of each researcher and dataset, datasets side by side."""
    return np.array(
        [
            [number for predictions in datasets for number in _sums(ratings[name], predictions.get(name, {}))]
            for name in sorted(ratings)
        ]
    )


def _sums(rated: Mapping[str, float], predicted: Mapping[str, float]) -> tuple[float, ...]:
    """Return the loss and its maximum; easy pairs in order and in all; hard pairs in order and in all."""
    lost = most = easy = n_easy = hard = n_hard = 0.0
    for first, second in combinations(rated, 2):
        apart = rated[first] - rated[second]
        if apart == 0:
            continue
        both = first in predicted and second in predicted
        order = (predicted[first] - predicted[second]) * apart if both else 0.0
        most += abs(apart)
        lost += abs(apart) * (0.5 if order == 0 else float(order < 0))
        low, high = sorted((rated[first], rated[second]))
        if low >= 4:
            n_hard, hard = n_hard + 1, hard + (order > 0)
        elif high >= 4 and low <= 2:
            n_easy, easy = n_easy + 1, easy + (order > 0)
    return lost, most, easy, n_easy, hard, n_hard


def _figures(counts: Float64[np.ndarray, "n_drawn n_counts"]) -> Float64[np.ndarray, "n_drawn 3"]:
    """Return loss, easy and hard in percent, means over the datasets; nan if there is no such pair."""
    sums = counts.reshape(len(counts), -1, 3, 2)
    with np.errstate(invalid="ignore"):
        figures: Float64[np.ndarray, "n_drawn 3"] = 100 * (sums[..., 0] / sums[..., 1]).mean(axis=1)
    return figures


def figure_rows(system: str, counts: Float64[np.ndarray, "n_reviewers n_counts"]) -> Iterator[Row]:
    """Yield loss, easy and hard of a system, with their intervals."""
    values = _figures(counts.sum(axis=0, keepdims=True))[0]
    low, high, _ = bounds(counts, _figures)
    for number, measure in enumerate((LOSS, EASY, HARD)):
        if not np.isnan(values[number]):
            yield Row(
                set="reviewers",
                system=system,
                facet=ALL,
                fold=ALL,
                measure=measure,
                value=float(values[number]),
                low=float(low[number]),
                high=float(high[number]),
                n=len(counts),
            )


def loss_differences(
    counts: Mapping[str, Float64[np.ndarray, "n_reviewers n_counts"]],
) -> tuple[tuple[str, Comparison], ...]:
    """Return the loss of ``akin`` minus that of each other system, corrected for their number."""
    others = [(name, own) for name, own in counts.items() if name != "akin"]
    return correct_named(
        [(name, Comparison(LOSS, ALL, loss_difference(counts["akin"], own))) for name, own in others]
    )


def loss_difference(
    first: Float64[np.ndarray, "n_reviewers n_counts"], second: Float64[np.ndarray, "n_reviewers n_counts"]
) -> Difference:
    """Return the loss of ``first`` minus that of ``second``; both are resampled with the same researchers."""
    width = first.shape[1]

    def apart(counts: Float64[np.ndarray, "n_drawn n_both"]) -> Float64[np.ndarray, "n_drawn 1"]:
        losses: Float64[np.ndarray, "n_drawn 1"] = _figures(counts[:, :width]) - _figures(counts[:, width:])
        return losses[:, :1]

    both = np.hstack([first, second])
    low, high, p = bounds(both, apart)
    value = float(apart(both.sum(axis=0, keepdims=True))[0, 0])
    return Difference(value, float(low[0]), float(high[0]), len(both), float(p[0]))
