"""The gold standard of reviewer assignment (Stelmakh et al., TMLR 2025): ratings, profiles, predictions."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.sets.files import csv_errors, json_document, text_lines
from indexer.corpus.read import CorpusReport, read_corpus
from models.errors import BrokenRowError, CollectionMissingError, CorpusFormatError
from models.types import Paper

EVALUATIONS = Path("data", "evaluations.csv")
# The datasets of the main table in the paper: profiles of 20 papers, by title and abstract.
DEFAULT_DATASETS = "d_20_"
_REGIME = "ta"
_N_RATED = 10
_DATASET = re.compile(r"d_\d+(?:_\d+)+")
_PREDICTION = re.compile(r"(.+?)_(d_\d+(?:_\d+)+)_(t|ta|f)\.json")


@dataclass(frozen=True, slots=True)
class ReviewerDataset:
    """Profiles of researchers (paper ids), all papers by id, and how many rows have no usable paper."""

    profiles: dict[str, list[str]]
    papers: dict[str, Paper]
    n_unusable: int


class ReviewerSet:
    """The gold standard in its own layout; researchers are named without ``~``."""

    publisher = "its authors (github.com/niharshah/goldstandard-reviewer-paper-match)"
    layout = """
<folder>/
  data/evaluations.csv              tab-separated: ParticipantID, Paper1 ... Paper10, Expertise1 ... 10
  evaluation_datasets/d_20_1/ ...   submissions.json and archives/~PARTICIPANT.jsonl, as OpenReview has them
  predictions/*_d_20_1_ta.json      of other algorithms, {participant: {paper: similarity}}; may be missing
"""

    def ratings(self, folder: Path) -> dict[str, dict[str, float]]:
        """Return the ratings, 1 to 5, of each researcher for each paper, over all rows.

        Raises CollectionMissingError, CorpusFormatError, and BrokenRowError for a rating outside 1 to 5 or if
        two ratings of one paper by one researcher differ.
        """
        path = folder / EVALUATIONS
        if not path.is_file():
            raise self._missing(path)
        rows = csv.DictReader((line for _, line in text_lines(path)), delimiter="\t", restval="")
        ratings: dict[str, dict[str, float]] = {}
        with csv_errors(path, rows):
            for name, paper, rating in _ratings(path, rows):
                before = ratings.setdefault(name, {}).setdefault(paper, rating)
                if before != rating:
                    given = f"{rating:g}, and {before:g} before"
                    reason = f"~{name[:80]} rates {paper[:80]!r} {given}; keep one of them"
                    raise BrokenRowError(str(path), rows.line_num, reason)
        return ratings

    def datasets(self, folder: Path, prefix: str = DEFAULT_DATASETS) -> list[Path]:
        """Return the folders of datasets with names that begin with ``prefix``, in numeric order.

        Raises CollectionMissingError if there are none.
        """
        parent = folder / "evaluation_datasets"
        found = [path for path in parent.glob(f"{prefix}*") if _DATASET.fullmatch(path.name)]
        if not found:
            raise self._missing(parent / f"{prefix}N")
        return sorted(found, key=lambda path: [int(part) for part in path.name.split("_")[1:]])

    def dataset(self, path: Path) -> ReviewerDataset:
        """Read one of the ``datasets``."""
        reports = []

        def papers_of(file: Path) -> dict[str, Paper]:
            reports.append(CorpusReport())
            return {each.id: each for each in read_corpus(file, format_name="openreview", report=reports[-1])}

        papers = papers_of(path / "submissions.json")
        profiles = {}
        for archive in sorted((path / "archives").glob("*.jsonl")):
            own = papers_of(archive)
            profiles[archive.stem.lstrip("~")] = list(own)
            papers |= own
        n_unusable = sum(each.broken - each.duplicates + each.without_abstract for each in reports)
        return ReviewerDataset(profiles, papers, n_unusable)

    def predictions(
        self, folder: Path, datasets: Sequence[str]
    ) -> dict[str, list[dict[str, dict[str, float]]]]:
        """Return similarities by researcher and paper, of each algorithm that covers all ``datasets``."""
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

    def _missing(self, path: Path) -> CollectionMissingError:
        return CollectionMissingError(
            f"There is no {path}. Expected is the layout of its publisher, {self.publisher}:\n"
            f"{self.layout.strip()}\nFetch it there and name the folder."
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
