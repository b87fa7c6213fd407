"""Files of a match for conference systems and other programs."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from indexer.files.cells import escape_formulas
from indexer.files.durable import storage_errors
from service.match.assignment import Assignment
from service.match.matching import Match

SCORES = "scores.csv"
CMT_SCORES = "cmt-scores.tsv"
PARQUET = "affinities.parquet"
ASSIGNMENTS = "assignments.csv"
CMT_ASSIGNMENTS = "cmt-assignments.xml"
TABLES: Final = (SCORES, CMT_SCORES, PARQUET, ASSIGNMENTS, CMT_ASSIGNMENTS)

_NAME: Final = pa.dictionary(pa.int32(), pa.string())
_SCHEMA: Final = pa.schema(
    [("submission", _NAME), ("reviewer", _NAME), ("affinity", pa.float64()), ("conflict", pa.bool_())]
)
# Submissions per row group of the Parquet file, with all their pairs.
_N_SUBMISSIONS: Final = 100


def write_scores(match: Match, folder: Path) -> None:
    """Write all affinities for OpenReview, for CMT, and as a Parquet file with conflicts marked.

    Rows are written as they are generated; raises StorageError.
    """
    # OpenReview's file has no header, and cells are read verbatim: an apostrophe would change the person.
    _write_rows(folder / SCORES, _scores(match), ",")
    header = [("Paper ID", "Reviewer Email", "Score")]
    _write_rows(folder / CMT_SCORES, chain(header, _scores(match)), "\t")
    with storage_errors(folder / PARQUET), pq.ParquetWriter(folder / PARQUET, _SCHEMA) as writer:
        for first in range(0, len(match.submissions), _N_SUBMISSIONS):
            writer.write_table(_table(match, first, first + _N_SUBMISSIONS))


def _scores(match: Match) -> Iterator[tuple[str, str, str]]:
    return ((submission, name, f"{affinity:.6f}") for submission, name, affinity in match.pairs())


def _table(match: Match, first: int, last: int) -> pa.Table:
    """Return the pairs of the submissions with the numbers ``first`` up to ``last``."""
    submissions = match.submissions[first:last]
    numbers = np.arange(len(submissions), dtype=np.int32)
    columns = np.arange(len(match.names), dtype=np.int32)
    return pa.table(
        {
            "submission": pa.DictionaryArray.from_arrays(
                np.repeat(numbers, len(columns)), pa.array(submissions, pa.string())
            ),
            "reviewer": pa.DictionaryArray.from_arrays(
                np.tile(columns, len(numbers)), pa.array(match.names, pa.string())
            ),
            "affinity": match.values[first:last].ravel(),
            "conflict": match.conflicts[first:last].ravel(),
        },
        schema=_SCHEMA,
    )


def write_assignment(match: Match, assignment: Assignment, folder: Path) -> None:
    """Write the assignment as a table for people and as the XML that CMT imports. Raises StorageError."""
    header = ("submission", "title", "reviewer", "affinity")
    rows: list[tuple[str, ...]] = [header]
    root = ET.Element("assignments")
    for row, reviewers in enumerate(assignment.reviewers):
        submission = match.submissions[row]
        title = match.program.papers[submission].title
        entry = ET.SubElement(root, "submission", submissionId=submission)
        for column in reviewers:
            name = match.names[column]
            cells = [escape_formulas(each) for each in (submission, title, name)]
            rows.append((*cells, f"{match.values[row, column]:.6f}"))
            ET.SubElement(entry, "user", email=name)
    _write_rows(folder / ASSIGNMENTS, rows, ",")
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
    with storage_errors(folder / CMT_ASSIGNMENTS):
        (folder / CMT_ASSIGNMENTS).write_bytes(text.encode("utf-8", errors="replace"))


def _write_rows(path: Path, rows: Iterable[Sequence[str]], delimiter: str) -> None:
    with (
        storage_errors(path),
        path.open("w", encoding="utf-8", errors="replace", newline="") as file,
    ):
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)
