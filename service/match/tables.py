"""A match as files that conference systems and other programs read."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from indexer.files.cells import harmless
from indexer.files.durable import replace_file, storage_errors
from service.match.assignment import Assignment
from service.match.matching import Match

SCORES = "scores.csv"
CMT_SCORES = "cmt-scores.tsv"
PARQUET = "affinities.parquet"
ASSIGNMENTS = "assignments.csv"
CMT_ASSIGNMENTS = "cmt-assignments.xml"


def write_scores(match: Match, folder: Path) -> None:
    """All affinities: as OpenReview reads them, as CMT does, and as a Parquet file with conflicts marked.

    Raises StorageError.
    """
    rows = [(submission, name, f"{affinity:.6f}") for submission, name, affinity in match.pairs()]
    # OpenReview's has no header and takes cells as they are: an apostrophe would make it another person.
    _write(folder / SCORES, _text(rows, ","))
    _write(folder / CMT_SCORES, _text([("Paper ID", "Reviewer Email", "Score"), *rows], "\t"))
    n_submissions, n_profiles = match.values.shape
    table = pa.table(
        {
            "submission": pa.DictionaryArray.from_arrays(
                np.repeat(np.arange(n_submissions, dtype=np.int32), n_profiles), list(match.submissions)
            ),
            "reviewer": pa.DictionaryArray.from_arrays(
                np.tile(np.arange(n_profiles, dtype=np.int32), n_submissions), list(match.names)
            ),
            "affinity": match.values.ravel(),
            "conflict": match.conflicts.ravel(),
        }
    )
    path = folder / PARQUET
    with storage_errors(path):
        fresh = path.with_suffix(".new")
        pq.write_table(table, fresh)
        fresh.replace(path)


def write_assignment(match: Match, assignment: Assignment, folder: Path) -> None:
    """Who reviews what: a table for people, and the XML that CMT imports. Raises StorageError."""
    header = ("submission", "title", "reviewer", "affinity")
    rows: list[tuple[str, ...]] = [header]
    root = ET.Element("assignments")
    for row, reviewers in enumerate(assignment.reviewers):
        submission = match.submissions[row]
        title = match.program.papers[submission].title
        entry = ET.SubElement(root, "submission", submissionId=submission)
        for column in reviewers:
            name = match.names[column]
            cells = [harmless(each) for each in (submission, title, name)]
            rows.append((*cells, f"{match.values[row, column]:.6f}"))
            ET.SubElement(entry, "user", email=name)
    _write(folder / ASSIGNMENTS, _text(rows, ","))
    ET.indent(root)
    _write(folder / CMT_ASSIGNMENTS, ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n")


def _text(rows: Iterable[tuple[str, ...]], delimiter: str) -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return file.getvalue()


def _write(path: Path, text: str) -> None:
    with storage_errors(path):
        replace_file(path, text.encode("utf-8", errors="replace"))
