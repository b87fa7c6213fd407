"""Reviewers: does affinity order the papers that a researcher rated as the researcher does?

Stelmakh, Wieting, Xi, Neubig, Shah, "A Gold Standard Dataset for the Reviewer Assignment Problem" (TMLR
2025): researchers said from 1 to 5 how well they could review papers they had read. The loss is the share of
wrongly ordered pairs of papers of one researcher, each pair weighing as much as its ratings differ, ties of
the prediction half; "easy" and "hard" are shares of rightly ordered pairs, unweighted, of one paper rated at
least 4 and one at most 2, and of two that are rated at least 4, differently. Means over the datasets, which
are draws of the same researchers' profiles.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from jaxtyping import Float64

from evaluation.sets.files import json_document, text_lines
from evaluation.statistics.bootstrap import Difference, bounds
from evaluation.statistics.multiple import correct_named
from evaluation.statistics.summary import ALL, Compared, Comparison, Row
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.counts import counted
from models.errors import BrokenRowError, CollectionMissingError, CorpusFormatError, InputError
from models.types import Paper, ProgressFn
from service.match.affinity import Affinities
from service.match.nearness import Nearness
from service.match.papers import matched_papers

# Of all pairs, the main one first. For the loss, lower is better.
LOSS, EASY, HARD = "loss", "easy", "hard"
_EVALUATIONS = Path("data", "evaluations.csv")
_N_RATED = 10
_DATASET = re.compile(r"d_\d+(?:_\d+)+")
_PREDICTION = re.compile(r"(.+?)_(d_\d+(?:_\d+)+)_(t|ta|f)\.json")
# What the paper's own table is computed on: profiles of 20 papers, by title and abstract.
DEFAULT_DATASETS = "d_20_"
_REGIME = "ta"

# By reviewer, without "~", and paper.
Ratings = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class ReviewerMeasurement:
    """What was measured of ``akin`` and of published predictions over ``n_reviewers`` researchers.

    ``differences`` are Akin's loss less that of each other algorithm, in percentage points.
    """

    n_reviewers: int
    n_ratings: int
    rows: tuple[Row, ...]
    differences: tuple[tuple[str, Comparison], ...]
    notes: tuple[str, ...]

    @property
    def compared(self) -> tuple[Compared, ...]:
        """The differences with both names."""
        return tuple(Compared("akin", name, each) for name, each in self.differences)


class ReviewerSet:
    """The gold standard's own layout."""

    publisher = "its authors (github.com/niharshah/goldstandard-reviewer-paper-match)"
    layout = """
<folder>/
  data/evaluations.csv              tab-separated: ParticipantID, Paper1 ... Paper10, Expertise1 ... 10
  evaluation_datasets/d_20_1/ ...   submissions.json and archives/~PARTICIPANT.jsonl, as OpenReview has them
  predictions/*_d_20_1_ta.json      of other algorithms, {participant: {paper: similarity}}; may be missing
"""

    def ratings(self, folder: Path) -> dict[str, dict[str, float]]:
        """What each researcher said of each paper, 1 to 5, in all their rows.

        Raises CollectionMissingError, CorpusFormatError, and BrokenRowError where two ratings of one paper by
        one researcher differ.
        """
        path = folder / _EVALUATIONS
        if not path.is_file():
            raise self._missing(path)
        rows = csv.DictReader((line for _, line in text_lines(path)), delimiter="\t", restval="")
        ratings: dict[str, dict[str, float]] = {}
        for name, paper, rating in _ratings(path, rows):
            before = ratings.setdefault(name, {}).setdefault(paper, rating)
            if before != rating:
                reason = (
                    f"~{name[:80]} rates {paper[:80]!r} {rating:g}, and {before:g} before; keep one of them"
                )
                raise BrokenRowError(str(path), rows.line_num, reason)
        return ratings

    def datasets(self, folder: Path, prefix: str = DEFAULT_DATASETS) -> list[Path]:
        """The folders of datasets whose names begin with ``prefix``, in order."""
        parent = folder / "evaluation_datasets"
        found = [path for path in parent.glob(f"{prefix}*") if _DATASET.fullmatch(path.name)]
        if not found:
            raise self._missing(parent / f"{prefix}N")
        return sorted(found, key=lambda path: [int(part) for part in path.name.split("_")[1:]])

    def _missing(self, path: Path) -> CollectionMissingError:
        return CollectionMissingError(
            f"There is no {path}. Expected is the layout of its publisher, {self.publisher}:\n"
            f"{self.layout.strip()}\nFetch it there and name the folder."
        )


def measure_reviewers(
    folder: Path,
    annotator: Annotator,
    *,
    data: Path | None = None,
    datasets: str = DEFAULT_DATASETS,
    device: str = "cpu",
    on_progress: ProgressFn,
) -> ReviewerMeasurement:
    """Measure affinity on the gold standard in ``folder``, and the predictions that lie there.

    ``data`` is a data folder that keeps the papers encoded between runs; each is encoded once, whatever the
    datasets. Raises CollectionMissingError, BrokenRowError, CorpusFormatError, InputError where no rating
    counts, and what ``build`` raises.
    """
    reader = ReviewerSet()
    ratings, found = reader.ratings(folder), reader.datasets(folder, datasets)
    read = [_read(path) for path in found]
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
    systems = {"akin": ours, **_published(folder, [path.name for path in found])}
    known = {name for predictions in ours for of_reviewer in predictions.values() for name in of_reviewer}
    kept, notes = _kept(ratings, known, ours)
    if n_unusable := sum(dataset.n_unusable for dataset in read):
        notes.append(f"Left out: {counted(n_unusable, 'row')} of the datasets without a usable paper.")
    counts = {name: pair_counts(kept, predictions) for name, predictions in systems.items()}
    return ReviewerMeasurement(
        len(kept),
        sum(map(len, kept.values())),
        tuple(row for name, own in counts.items() for row in figure_rows(name, own)),
        loss_differences(counts),
        tuple(notes),
    )


def _ratings(path: Path, rows: "csv.DictReader[str]") -> Iterator[tuple[str, str, float]]:
    wanted = ["ParticipantID", "Paper1", "Expertise1"]
    if missing := [name for name in wanted if name not in (rows.fieldnames or ())]:
        raise CorpusFormatError(f"{path} has no column {', '.join(missing)} (separated by tabs).")
    for row in rows:
        for number in range(1, _N_RATED + 1):
            paper, given = row.get(f"Paper{number}") or "", row.get(f"Expertise{number}") or ""
            if not paper:
                continue
            try:
                rating = float(given)
            except ValueError:
                rating = float("nan")
            if not 1 <= rating <= 5:
                reason = f"Expertise{number} is {given!r}; expected a number from 1 to 5"
                raise BrokenRowError(str(path), rows.line_num, reason)
            yield row["ParticipantID"].lstrip("~"), paper, rating


@dataclass(frozen=True, slots=True)
class _Dataset:
    """The profiles of researchers, as ids, and all papers by id; how many rows hold no usable one."""

    profiles: dict[str, list[str]]
    papers: dict[str, Paper]
    n_unusable: int


def _read(dataset: Path) -> _Dataset:
    n_unusable = 0

    def papers_of(path: Path) -> dict[str, Paper]:
        nonlocal n_unusable
        report = CorpusReport()
        papers = {each.id: each for each in read_corpus(path, format_name="openreview", report=report)}
        n_unusable += report.broken - report.duplicates + report.without_abstract
        return papers

    papers = papers_of(dataset / "submissions.json")
    profiles = {}
    for archive in sorted((dataset / "archives").glob("*.jsonl")):
        own = papers_of(archive)
        profiles[archive.stem.lstrip("~")] = list(own)
        papers |= own
    return _Dataset(profiles, papers, n_unusable)


def _check_any_counts(ratings: Ratings, datasets: Sequence[_Dataset], folder: Path) -> None:
    """Raise InputError where no researcher of all ``datasets`` rated two of their papers differently."""
    nameless = [name for name in ratings if not all(each.profiles.get(name) for each in datasets)]
    papers = dict.fromkeys(paper for rated in ratings.values() for paper in rated)
    unknown = [paper for paper in papers if not all(paper in each.papers for each in datasets)]
    lost = set(unknown)
    for name in ratings.keys() - set(nameless):
        if len({rating for paper, rating in ratings[name].items() if paper not in lost}) > 1:
            return
    raise InputError(
        f"No two ratings of {folder / _EVALUATIONS} can be compared: a researcher has to rate two papers "
        f"differently. Of {len(ratings)} researchers {len(nameless)} have no profile in each of "
        f"{len(datasets)} datasets{_some(nameless)}; of {len(papers)} papers {len(unknown)} are not in each"
        f"{_some(unknown)}. ParticipantID must be the name of a file in archives without .jsonl, and Paper1 "
        "and so on must be keys of submissions.json; fetch both from the source of the ratings."
    )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(each[:80]) for each in names[:3]) + (" ..." if names[3:] else "")
    return f" ({shown})" if names else ""


def _predicted(snapshot: Snapshot, ratings: Ratings, dataset: _Dataset) -> dict[str, dict[str, float]]:
    rated_by: dict[str, list[str]] = {}
    for reviewer, rated in ratings.items():
        for paper in rated:
            if dataset.profiles.get(reviewer) and paper in dataset.papers:
                rated_by.setdefault(paper, []).append(reviewer)
    nearness = Nearness(snapshot)
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


def _published(folder: Path, datasets: Sequence[str]) -> dict[str, list[dict[str, dict[str, float]]]]:
    """The predictions of each algorithm that has them for all ``datasets``."""
    files: dict[str, dict[str, Path]] = {}
    for path in sorted((folder / "predictions").glob("*.json")):
        named = _PREDICTION.fullmatch(path.name)
        if named and named[3] == _REGIME:
            files.setdefault(named[1], {})[named[2]] = path
    return {
        name: [_similarities(paths[dataset]) for dataset in datasets]
        for name, paths in files.items()
        if paths.keys() >= set(datasets)
    }


def _similarities(path: Path) -> dict[str, dict[str, float]]:
    try:
        return {
            reviewer.lstrip("~"): {paper: float(similarity) for paper, similarity in own.items()}
            for reviewer, own in json_document(path).items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise CorpusFormatError(
            f"{path} holds no predictions; expected numbers by paper, by reviewer."
        ) from error


def _kept(
    ratings: Ratings, known: set[str], ours: Sequence[Ratings]
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """The ratings that every dataset has a prediction for, and how many it has none for."""
    kept = {
        reviewer: {
            paper: rating
            for paper, rating in rated.items()
            if paper in known and all(paper in own.get(reviewer, {}) for own in ours)
        }
        for reviewer, rated in ratings.items()
    }
    n_lost = sum(map(len, ratings.values())) - sum(map(len, kept.values()))
    note = f"{n_lost} ratings are of papers or researchers that are not in a dataset; they do not count."
    return {reviewer: rated for reviewer, rated in kept.items() if rated}, [note] if n_lost else []


def pair_counts(ratings: Ratings, datasets: Sequence[Ratings]) -> Float64[np.ndarray, "n_reviewers n_counts"]:
    """For each researcher and dataset what ``_sums`` says, datasets side by side."""
    return np.array(
        [
            [number for predictions in datasets for number in _sums(ratings[name], predictions.get(name, {}))]
            for name in sorted(ratings)
        ]
    )


def _sums(rated: Mapping[str, float], predicted: Mapping[str, float]) -> tuple[float, ...]:
    """Loss and most it could be; easy pairs in order and all of them; hard ones likewise.

    A pair without a prediction counts as a tie.
    """
    lost = most = easy = n_easy = hard = n_hard = 0.0
    for first, second in combinations(rated, 2):
        apart = rated[first] - rated[second]
        if apart == 0:
            continue
        told = first in predicted and second in predicted
        order = (predicted[first] - predicted[second]) * apart if told else 0.0
        most += abs(apart)
        lost += abs(apart) * (0.5 if order == 0 else float(order < 0))
        low, high = sorted((rated[first], rated[second]))
        if low >= 4:
            n_hard, hard = n_hard + 1, hard + (order > 0)
        elif high >= 4 and low <= 2:
            n_easy, easy = n_easy + 1, easy + (order > 0)
    return lost, most, easy, n_easy, hard, n_hard


def _figures(counts: Float64[np.ndarray, "n_drawn n_counts"]) -> Float64[np.ndarray, "n_drawn 3"]:
    """Loss, easy and hard in percent, means over the datasets; nan where there is no such pair."""
    sums = counts.reshape(len(counts), -1, 3, 2)
    with np.errstate(invalid="ignore"):
        figures: Float64[np.ndarray, "n_drawn 3"] = 100 * (sums[..., 0] / sums[..., 1]).mean(axis=1)
    return figures


def figure_rows(system: str, counts: Float64[np.ndarray, "n_reviewers n_counts"]) -> Iterator[Row]:
    """Loss, easy and hard of a system, with their intervals."""
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
    """The loss of ``akin`` less that of each other system, corrected for their number."""
    others = [(name, own) for name, own in counts.items() if name != "akin"]
    return correct_named(
        [(name, Comparison(LOSS, ALL, loss_difference(counts["akin"], own))) for name, own in others]
    )


def loss_difference(
    first: Float64[np.ndarray, "n_reviewers n_counts"], second: Float64[np.ndarray, "n_reviewers n_counts"]
) -> Difference:
    """The loss of ``first`` less that of ``second``, the same researchers drawn for both."""
    width = first.shape[1]

    def apart(counts: Float64[np.ndarray, "n_drawn n_both"]) -> Float64[np.ndarray, "n_drawn 1"]:
        losses: Float64[np.ndarray, "n_drawn 1"] = _figures(counts[:, :width]) - _figures(counts[:, width:])
        return losses[:, :1]

    both = np.hstack([first, second])
    low, high, p = bounds(both, apart)
    value = float(apart(both.sum(axis=0, keepdims=True))[0, 0])
    return Difference(value, float(low[0]), float(high[0]), len(both), float(p[0]))
