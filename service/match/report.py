"""The report of a match for a program chair: one HTML page without scripts or network access."""

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from indexer.files.durable import storage_errors
from models.types import Alignment, Paper, ProgressFn
from service.match.affinity import Reason
from service.match.assignment import Assignment
from service.match.matching import Match

REPORT: Final = "report.html"
# How many papers of a profile are shown for a pair, and how many pairs of sentences for each paper.
_N_PAPERS: Final = 2
_N_SENTENCES: Final = 2
# Characters that HTML forbids in text: control characters and halves of surrogate pairs.
_FORBIDDEN = re.compile(r"[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class _Evidence:
    """A paper of a profile, its affinity alone, and pairs of sentences with their shares of the match."""

    title: str
    affinity: float
    sentences: tuple[tuple[str, str, float], ...]
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Suggestion:
    """A reviewer of a submission; ``column`` is its number."""

    name: str
    column: int
    affinity: float
    assigned: bool
    evidence: tuple[_Evidence, ...]


@dataclass(frozen=True, slots=True)
class _Submission:
    """A submission with its reviewers, the assigned ones first, and the number of conflicting reviewers."""

    id: str
    title: str
    row: int
    reviewers: tuple[_Suggestion, ...]
    n_conflicts: int


@dataclass(frozen=True, slots=True)
class _Load:
    """A reviewer: the assigned submissions, and the number of submissions that show this reviewer."""

    name: str
    column: int
    n_papers: int
    assigned: tuple[tuple[int, str, float], ...]
    n_suggested: int


def write_report(
    path: Path,
    match: Match,
    assignment: Assignment | None,
    *,
    n_shown: int,
    command: str,
    on_progress: ProgressFn,
) -> None:
    """Write the reviewers of each submission with reasons, and the load of each reviewer.

    The report shows the ``n_shown`` nearest reviewers of each submission and the assigned ones. Raises
    StorageError and DeadlineError.
    """
    submissions = []
    for row in range(len(match.submissions)):
        on_progress("explaining", row, len(match.submissions))
        submissions.append(_submission(match, assignment, row, n_shown))
    on_progress("explaining", len(match.submissions), len(match.submissions))
    html = (
        _environment()
        .get_template("report.html.jinja")
        .render(
            submissions=submissions,
            loads=_loads(match, submissions),
            match=match,
            assignment=assignment,
            made_on=dt.datetime.now(tz=dt.UTC).date(),
            command=command,
        )
    )
    with storage_errors(path):
        path.write_bytes(_FORBIDDEN.sub("�", html).encode())


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("service.match", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _submission(match: Match, assignment: Assignment | None, row: int, n_shown: int) -> _Submission:
    assigned = assignment.reviewers[row] if assignment else ()
    columns = list(dict.fromkeys([*assigned, *match.best(row, n_shown)]))
    submission = match.submissions[row]
    paper = match.program.papers[submission]
    reasons = match.reasons(row, columns, n_reasons=_N_PAPERS)
    return _Submission(
        submission,
        paper.title,
        row,
        tuple(
            _Suggestion(
                match.names[column],
                column,
                float(match.values[row, column]),
                column in assigned,
                tuple(_evidence(paper, reason) for reason in own.returned),
            )
            for column, own in zip(columns, reasons, strict=True)
        ),
        int(match.conflicts[row].sum()),
    )


def _evidence(paper: Paper, reason: Reason) -> _Evidence:
    ranked = reason.ranked
    return _Evidence(
        ranked.paper.title,
        1 + ranked.score / reason.usual,
        tuple(_sentences(paper, ranked.paper, ranked.alignments)),
        tuple(each.term for each in ranked.words.terms[:6]),
    )


def _sentences(
    paper: Paper, other: Paper, alignments: tuple[Alignment, ...]
) -> Iterator[tuple[str, str, float]]:
    """Yield the heaviest pairs of sentences, each sentence at most once."""
    seen: set[tuple[str, int]] = set()
    n_shown = 0
    for cell in alignments:
        row, column = cell.query_sentence, cell.sentence
        if row is None or column is None or {("a", row), ("b", column)} & seen:
            continue
        seen |= {("a", row), ("b", column)}
        yield paper.sentences[row].text, other.sentences[column].text, cell.weight
        n_shown += 1
        if n_shown == _N_SENTENCES:
            return


def _loads(match: Match, submissions: list[_Submission]) -> list[_Load]:
    given: dict[int, list[tuple[int, str, float]]] = {}
    suggested: dict[int, int] = {}
    for submission in submissions:
        for each in submission.reviewers:
            suggested[each.column] = suggested.get(each.column, 0) + 1
            if each.assigned:
                entry = submission.row, submission.title, each.affinity
                given.setdefault(each.column, []).append(entry)
    loads = [
        _Load(
            name,
            column,
            len(match.program.profiles[name]),
            tuple(given.get(column, [])),
            suggested.get(column, 0),
        )
        for column, name in enumerate(match.names)
    ]
    return sorted(loads, key=lambda load: (-len(load.assigned), -load.n_suggested, load.name))
