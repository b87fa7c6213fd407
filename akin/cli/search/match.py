"""``akin match``: reviewers for submissions."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from akin.cli.consoles import stderr, stdout
from akin.cli.options import Device, EncoderName, refuse_options
from akin.cli.progress import show_progress
from indexer.files.durable import folder_lock, replaced_together, storage_errors
from indexer.spare_cores import N_CORES
from models.annotator import load_annotator
from models.counts import counted
from models.errors import BuildLockedError, InputError
from service.match.affinity import N_NEAREST
from service.match.assignment import Aim, Assignment
from service.match.matching import Match, Quotas
from service.match.paper_distances import expect_sentences
from service.match.papers import matched_papers
from service.match.program.program import ProfileSelection, Program, read_program
from service.match.report import REPORT, write_report
from service.match.tables import TABLES, write_assignment, write_scores


def match(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="SUBMISSIONS PROFILES",
            help="Files of submissions, then the profiles: a folder with one file per reviewer, or a list "
            "of names and papers.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write.", file_okay=False)],
    corpus: Annotated[
        list[Path] | None,
        typer.Option(
            help="A file with the papers that a list of profiles names; repeatable.", dir_okay=False
        ),
    ] = None,
    conflicts: Annotated[
        Path | None,
        typer.Option(help="CSV of pairs (submission, reviewer) that are never assigned.", dir_okay=False),
    ] = None,
    reviewers: Annotated[
        int,
        typer.Option(
            "--reviewers", min=0, max=1_000, help="Reviewers to assign to each submission; 0: none."
        ),
    ] = 0,
    quota: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Maximum number of submissions per reviewer.")
    ] = 6,
    quotas: Annotated[
        Path | None, typer.Option(help="CSV of single quotas: reviewer, number.", dir_okay=False)
    ] = None,
    aim: Annotated[
        Aim, typer.Option(help="Maximise the sum of all affinities, or the smallest one.")
    ] = Aim.TOTAL,
    nearest: Annotated[
        int,
        typer.Option(min=1, max=100, help="Number of a profile's nearest papers that count for an affinity."),
    ] = N_NEAREST,
    most: Annotated[
        int | None, typer.Option(min=1, help="Use only this many of a profile's latest papers.")
    ] = None,
    since: Annotated[
        int | None,
        typer.Option(
            min=1000, max=2100, help="Only papers from this year on; papers without a year are left out."
        ),
    ] = None,
    shown: Annotated[
        int, typer.Option(min=1, max=50, help="Number of reviewers shown per submission in the report.")
    ] = 5,
    encoder: EncoderName = "minilm",
    device: Device = "auto",
) -> None:
    """Find reviewers for submissions by their papers, assign them, and explain each assignment.

    SUBMISSIONS and the papers of PROFILES are corpus files of any format, including OpenReview's archives
    and submissions.json. Writes scores.csv (OpenReview), cmt-scores.tsv, affinities.parquet and report.html
    into OUT, and with --reviewers also assignments.csv and cmt-assignments.xml. Authors have a conflict with
    their own submissions. If the command is interrupted, run it again to resume.
    """
    if len(files) < 2:
        raise InputError(
            "Give the files of submissions and then the profiles: akin match SUBMISSIONS PROFILES."
        )
    if corpus and files[-1].is_dir():
        raise InputError(
            f"--corpus goes with a list of names and papers, but {files[-1]} is a folder, whose files "
            "have the papers; leave out --corpus, or give a list."
        )
    if not reviewers:
        refuse_options(
            context,
            ("quota", "quotas", "aim"),
            "No assignment is requested, so {given} would have no effect; add --reviewers, the number per "
            "submission.",
        )
    program = read_program(
        files[:-1],
        files[-1],
        corpora=corpus or (),
        conflicts=conflicts,
        quotas=quotas,
        wanted=ProfileSelection(most, since),
    )
    stderr.print(_read(program))
    aims = Quotas(reviewers, quota, aim) if reviewers else None
    command = shlex.join(["akin", *sys.argv[1:]])
    annotator, data = load_annotator(encoder, device=device), out / "collection"
    expect_sentences(annotator.encoder.spec, "choose a sentence encoder, such as --encoder minilm")
    with _only_match(out), show_progress(stderr) as on_progress:
        snapshot = matched_papers(program.papers, data, annotator, device=device, on_progress=on_progress)
        found = Match(
            program,
            snapshot,
            data=data,
            n_nearest=nearest,
            n_threads=N_CORES,
            on_progress=on_progress,
        )
        # Assigned before anything is written: if there are not enough reviewers, no file changes.
        assignment = found.assigned(aims) if aims else None
        with storage_errors(out), replaced_together(out, (*TABLES, REPORT)) as folder:
            write_scores(found, folder)
            if assignment:
                write_assignment(found, assignment, folder)
            write_report(
                folder / REPORT, found, assignment, n_shown=shown, command=command, on_progress=on_progress
            )
    stdout.print(_summary(found, assignment, out))


@contextmanager
def _only_match(out: Path) -> Iterator[None]:
    """Lock the folder against other matches; raises BuildLockedError."""
    with ExitStack() as held:
        try:
            held.enter_context(folder_lock(out))
        except BuildLockedError as error:
            raise BuildLockedError(
                f"{out}: another akin match is writing into this folder; wait for it to end, or name another "
                "folder with --out."
            ) from error
        yield


def _read(program: Program) -> Group:
    """Render what could not be used: broken rows, papers without abstracts, notes, profiles left out."""
    report, lines = program.report, []
    lines += [Text(f"{row}", style="yellow") for row in report.broken_rows]
    if report.broken > len(report.broken_rows):
        lines.append(
            Text(
                f"... and {counted(report.broken - len(report.broken_rows), 'more broken row')}",
                style="yellow",
            )
        )
    if report.without_abstract:
        lines.append(
            Text(
                counted(
                    report.without_abstract,
                    "paper has no abstract and does not count.",
                    "papers have no abstract and do not count.",
                ),
                style="yellow",
            )
        )
    lines += [Text(note, style="yellow") for note in program.notes]
    if program.left_out:
        have = counted(len(program.left_out), "profile has", "profiles have")
        named = ", ".join(program.left_out[:5]) + (" ..." if len(program.left_out) > 5 else "")
        lines.append(Text(f"{have} no paper that counts: {named}", style="yellow"))
    return Group(*lines)


def _summary(found: Match, assignment: Assignment | None, out: Path) -> Table:
    table = Table(box=SIMPLE_HEAD, show_header=False)
    n_submissions, n_reviewers = found.values.shape
    table.add_row("Submissions", f"{n_submissions:,}")
    if found.program.unusable:
        table.add_row("Submissions left out, unreadable or without abstract", f"{found.program.unusable:,}")
    table.add_row("Reviewers", f"{n_reviewers:,}")
    if found.program.undated:
        table.add_row("Papers left out because they have no year", f"{found.program.undated:,}")
    table.add_row("Conflicts", f"{int(found.conflicts.sum()):,}")
    if assignment:
        n_reviews = sum(map(len, assignment.reviewers))
        table.add_row("Reviews assigned", f"{n_reviews:,}")
        table.add_row("Mean affinity", f"{assignment.total / n_reviews:.3f}")
        table.add_row("Least affinity", f"{assignment.least:.3f}")
    table.add_row("Read", str(out / REPORT))
    return table
