"""``akin compare``: two papers side by side. ``akin match``: which reviewers are near which submissions."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from akin.asking import read_query
from akin.consoles import stderr, stdout
from akin.display import notes
from akin.local import seed_of
from akin.options import Data, Device, EncoderName
from akin.progress import show_progress
from akin.serving import settings_of
from models.annotator import load_annotator
from models.errors import InputError
from service.api.schemas.compare import CompareOut
from service.collection.generations import open_engine
from service.match.affinity import N_NEAREST
from service.match.assignment import Aim, Assignment
from service.match.matching import Match, Quotas
from service.match.papers import matched_papers
from service.match.program import Program, Wanted, read_program
from service.match.report import write_report
from service.match.side_by_side import Side, SideBySide, side_by_side
from service.match.tables import write_assignment, write_scores
from service.search.query import Seed

_MOST_FACETS = 6  # pairs of facets that are shown


def compare(
    a: Annotated[str, typer.Argument(help="The name of an indexed paper, a file, or `-`.")],
    b: Annotated[str, typer.Argument(help="Another.")],
    data: Data,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the body of /v1/compare.")] = False,
) -> None:
    """Two papers side by side: what of each is like the other, by facet and words, and what only one has.

    A file holds a title, an empty line and an abstract, or one JSON paper.
    """
    engine = open_engine(settings_of(data=data, device=device))
    compared = side_by_side(engine, _paper(a), _paper(b))
    if as_json:
        typer.echo(CompareOut.of(compared).model_dump_json())
    else:
        stdout.print(_shown(compared))


def match(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="SUBMISSIONS PROFILES",
            help="Files of submissions, then the profiles: a folder with a file for each reviewer, or a list "
            "of names and papers.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder that is written.", file_okay=False)],
    corpus: Annotated[
        list[Path] | None,
        typer.Option(help="Holds the papers that a list names; repeatable.", dir_okay=False),
    ] = None,
    conflicts: Annotated[
        Path | None, typer.Option(help="CSV of submissions and reviewers never to be paired.", dir_okay=False)
    ] = None,
    reviewers: Annotated[
        int, typer.Option("--reviewers", min=0, help="Assign so many to each submission; 0: assign none.")
    ] = 0,
    quota: Annotated[int, typer.Option(min=0, help="The most submissions a reviewer is assigned.")] = 6,
    quotas: Annotated[
        Path | None, typer.Option(help="CSV of reviewers and quotas of their own.", dir_okay=False)
    ] = None,
    aim: Annotated[
        Aim, typer.Option(help="Assign for the largest sum of affinities, or for the largest least one.")
    ] = Aim.TOTAL,
    nearest: Annotated[
        int,
        typer.Option(min=1, max=100, help="How many of a profile's papers, the nearest, make an affinity."),
    ] = N_NEAREST,
    most: Annotated[
        int | None, typer.Option(min=1, help="Only so many of a profile's latest papers.")
    ] = None,
    since: Annotated[
        int | None, typer.Option(min=1000, max=2100, help="Only papers from this year on.")
    ] = None,
    shown: Annotated[
        int, typer.Option(min=1, max=50, help="Reviewers shown a submission in the report.")
    ] = 5,
    encoder: EncoderName = "minilm",
    device: Device = "auto",
) -> None:
    """How near reviewers are to submissions by their papers, who should review what, and why.

    SUBMISSIONS and the papers of PROFILES are corpus files of any format (OpenReview's archives and
    submissions.json among them). Writes scores.csv (OpenReview), cmt-scores.tsv, affinities.parquet and
    report.html into OUT, and with --reviewers also assignments.csv and cmt-assignments.xml. Authors are in
    conflict with their own submissions. The same command goes on where an interrupted one was.
    """
    if len(files) < 2:
        raise InputError(
            "Give the files of submissions and then the profiles: akin match SUBMISSIONS PROFILES."
        )
    program = read_program(
        files[:-1],
        files[-1],
        corpora=corpus or (),
        conflicts=conflicts,
        quotas=quotas,
        wanted=Wanted(most, since),
    )
    stderr.print(_read(program))
    annotator = load_annotator(encoder, device=device)
    data = out / "collection"
    with show_progress(stderr) as on_progress:
        snapshot = matched_papers(program.papers, data, annotator, device=device, on_progress=on_progress)
        found = Match(
            program,
            snapshot,
            data=data,
            n_nearest=nearest,
            n_threads=len(os.sched_getaffinity(0)),
            on_progress=on_progress,
        )
        write_scores(found, out)
        assignment = None
        if reviewers:
            assignment = found.assigned(Quotas(reviewers, quota, aim))
            write_assignment(found, assignment, out)
        command = shlex.join(["akin", *sys.argv[1:]])
        write_report(
            out / "report.html", found, assignment, n_shown=shown, command=command, on_progress=on_progress
        )
    stdout.print(_summary(found, assignment, out))


def _read(program: Program) -> Group:
    """What could not be used of the files."""
    report, lines = program.report, []
    lines += [Text(f"{row}", style="yellow") for row in report.broken_rows]
    if report.broken > len(report.broken_rows):
        lines.append(
            Text(f"... and {report.broken - len(report.broken_rows):,} more broken rows", style="yellow")
        )
    if report.without_abstract:
        lines.append(
            Text(f"{report.without_abstract:,} papers have no abstract and do not count.", style="yellow")
        )
    if program.left_out:
        named = ", ".join(program.left_out[:5]) + (" ..." if len(program.left_out) > 5 else "")
        lines.append(
            Text(f"{len(program.left_out):,} profiles have no paper that counts: {named}", style="yellow")
        )
    return Group(*lines)


def _summary(found: Match, assignment: Assignment | None, out: Path) -> Table:
    table = Table(box=SIMPLE_HEAD, show_header=False)
    n_submissions, n_reviewers = found.values.shape
    table.add_row("Submissions", f"{n_submissions:,}")
    table.add_row("Reviewers", f"{n_reviewers:,}")
    table.add_row("Conflicts", f"{int(found.conflicts.sum()):,}")
    if assignment:
        n_reviews = sum(map(len, assignment.reviewers))
        table.add_row("Reviews assigned", f"{n_reviews:,}")
        table.add_row("Mean affinity", f"{assignment.total / n_reviews:.3f}")
        table.add_row("Least affinity", f"{assignment.least:.3f}")
    table.add_row("Read", str(out / "report.html"))
    return table


def _paper(given: str) -> Seed:
    is_file = given == "-" or Path(given).is_file()
    return seed_of(read_query(paper_id="" if is_file else given, sources=(given,) if is_file else ()))


def _shown(compared: SideBySide) -> Group:
    affinity = Text(f"Affinity {compared.a.affinity:.3f}", style="bold")
    affinity.append(f" from A to B, {compared.b.affinity:.3f} back", style="")
    affinity.append(" (1: the same text; 0: no nearer than papers usually are)", style="dim")
    shown: list[Text | Table] = [affinity, Text()]
    for name, other, side, beside in (
        ("A", "B", compared.a, compared.b),
        ("B", "A", compared.b, compared.a),
    ):
        shown += [_side(name, other, side, beside), Text()]
    facets = Table("A", "B", "share", "distance", box=SIMPLE_HEAD, title="The match by facet")
    for share in compared.facets[:_MOST_FACETS]:
        facets.add_row(share.a or "none", share.b or "none", f"{share.weight:.0%}", f"{share.distance:.3f}")
    shown.append(facets)
    return Group(*shown, *notes(compared.warnings))


def _side(name: str, other: str, side: Side, beside: Side) -> Text:
    """A paper's sentences, each with the nearest of the other, what only it has marked, and the words."""
    text = Text(f"{name}: ", style="bold")
    text.append(side.paper.title or side.paper.abstract[:80], style="bold blue")
    for number, (sentence, near) in enumerate(zip(side.paper.sentences, side.sentences, strict=False)):
        text.append(f"\n  {number:>2} ", style="bold")
        text.append(sentence.text, style="yellow" if near.alone else "")
        text.append(f"  {sentence.facet}" if sentence.facet else "", style="dim italic")
        told = f"only in {name}" if near.alone else f"{other} {near.nearest} at {near.distance:.3f}"
        text.append(f"  → {told}", style="yellow" if near.alone else "green")
    for label, terms in (
        ("shared words", [each.term for each in beside.other.words.terms]),
        (f"words of {name} alone", side.terms),
    ):
        if terms:
            text.append(f"\n     {label}: {', '.join(terms)}", style="dim")
    return text
