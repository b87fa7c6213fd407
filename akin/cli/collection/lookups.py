"""``akin index --fetch``: lookup of missing abstracts in public services; and reports of skipped rows."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from rich.console import Group
from rich.text import Text

from indexer.collection.staging import StagingReport
from indexer.corpus.lookup.look_up import LookupReport, look_up
from indexer.corpus.lookup.throttled_client import ThrottledClient
from indexer.corpus.read import CorpusReport
from indexer.files.data_folder import DataFolder
from models.counts import counted
from models.types import ProgressFn

_SHOWN = 20


def fetch(
    corpora: Sequence[Path], data: Path, *, format_name: str, contact: str, on_progress: ProgressFn
) -> Group:
    """Look up the entries without an abstract, and render the outcome."""
    with ThrottledClient(contact=contact) as client:
        report = look_up(
            corpora, DataFolder(data).lookups, client, format_name=format_name, on_progress=on_progress
        )
    return _summary(report)


def _summary(report: LookupReport) -> Group:
    lines = [Text(f"Looked up {report.n_looked_up:,} entries, found {report.n_found:,}.")]
    if report.without_abstract:
        lines.append(Text(f"{report.without_abstract:,} of them have no abstract there."))
    if report.unknown:
        lines.append(Text(f"{len(report.unknown):,} are not known there:", style="yellow"))
        lines += [Text(f"  {lookup}") for lookup in report.unknown[:_SHOWN]]
    if report.refused:
        lines.append(Text(f"{len(report.refused):,} were refused there:", style="yellow"))
        lines += [Text(f"  {lookup} ({why})") for lookup, why in islice(report.refused.items(), _SHOWN)]
    lines += [
        Text(f"{name} failed ({why}). Run the same command again later.", style="yellow")
        for name, why in report.failed.items()
    ]
    return Group(*lines)


def refused_rows(refusals: CorpusReport, table: Path | None = None) -> Group:
    """Render what was skipped in reading, with the first reasons; ``table`` lists what can be looked up."""
    lines = []
    n_rows = refusals.broken - len(refusals.breaks)
    if n_rows:
        duplicates = f" ({refusals.duplicates:,} for a repeated id)" if refusals.duplicates else ""
        lines.append(Text(f"Skipped {counted(n_rows, 'row')}{duplicates}:", style="yellow"))
        ends = {(each.path, each.line) for each in refusals.breaks}
        rows = [each for each in refusals.broken_rows if (each.path, each.line) not in ends]
        lines += first_of(n_rows, rows)
    lines += [
        Text(
            f"{each.path} was not read to its end: line {each.line:,}: {each.reason}. Fetch it again, then "
            "run the same command again.",
            style="yellow",
        )
        for each in refusals.breaks
    ]
    if refusals.looked_up:
        lines.append(Text(f"{counted(refusals.looked_up, 'abstract')} came from --fetch."))
    return Group(*lines, *_without_abstract(refusals, table))


def retitled_papers(staging: StagingReport) -> Group:
    """Render the papers that replaced one with an entirely different title, perhaps another paper."""
    if not staging.n_retitled:
        return Group()
    replaced = f"{counted(staging.n_retitled, 'paper')} replaced one with the same id"
    advice = f"{replaced} and an entirely different title; if it is another paper, "
    return Group(
        Text(f"{advice}change the id of one and index both again:", style="yellow"),
        *first_of(staging.n_retitled, staging.retitled),
    )


def first_of(n_all: int, shown: Sequence[object]) -> list[Text]:
    """Render a line for each item of ``shown``, and how many more of ``n_all`` there are."""
    lines = [Text(f"  {each}") for each in shown]
    return lines + ([Text(f"  ... and {n_all - len(shown):,} more")] if n_all > len(shown) else [])


def _without_abstract(refusals: CorpusReport, table: Path | None) -> list[Text]:
    """Render the places of entries without an abstract, and how many of them can be looked up."""
    if not refusals.without_abstract:
        return []
    rows = counted(refusals.without_abstract, "row has", "rows have")
    were = "was" if refusals.without_abstract == 1 else "were"
    lines = [Text(f"{rows} no abstract and {were} skipped:")]
    known = {(each.path, each.line): f" ({each.lookup})" for each in refusals.unresolved}
    shown = refusals.rows_without_abstract
    named = [f"{path}:{line}: no abstract{known.get((path, line), '')}" for path, line in shown]
    lines += first_of(refusals.without_abstract, named)
    if refusals.unresolved and table is not None:
        lines.append(
            Text(
                f"{len(refusals.unresolved):,} of them can be looked up at Crossref, the arXiv or PubMed "
                f"with --fetch. {table} lists them."
            )
        )
    return lines
