"""Looks up entries without an abstract, and stores what is found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from indexer.corpus.lookup.found import FoundPapers
from indexer.corpus.lookup.polite import PoliteClient
from indexer.corpus.lookup.services import SERVICES, Service
from indexer.corpus.read import CorpusReport, read_corpus
from models.errors import ServiceError
from models.types import ProgressFn


@dataclass(slots=True)
class LookupReport:
    """What became of names that were looked up.

    ``unknown`` are those their service does not have; ``without_abstract`` counts papers that it has, but
    not their abstracts; ``failed`` says why a service was given up, by its name.
    """

    n_asked: int = 0
    n_found: int = 0
    without_abstract: int = 0
    unknown: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def look_up(
    corpora: Sequence[Path],
    folder: Path,
    client: PoliteClient,
    *,
    format_name: str = "auto",
    on_progress: ProgressFn,
    services: Mapping[str, Service] = SERVICES,
) -> LookupReport:
    """Ask for the unresolved entries of ``corpora`` that ``folder`` does not have yet.

    What is found is written down at once, so that an interrupted run goes on where it stopped. A service
    that fails is given up, and the others are asked. Raises CorpusError, StorageError.
    """
    found = FoundPapers(folder)
    rows = CorpusReport()
    for corpus in corpora:
        for _ in read_corpus(
            corpus,
            format_name=format_name,
            report=rows,
            found=found,
            on_rows=lambda n_rows: on_progress("Scanning", n_rows, None),
        ):
            pass
    on_progress("Scanning", rows.rows, rows.rows)
    wanted = list(dict.fromkeys(each.lookup for each in rows.unresolved if each.lookup not in found))
    report = LookupReport()
    for scheme, service in services.items():
        names = [lookup for lookup in wanted if lookup.startswith(f"{scheme}:")]
        try:
            for start in range(0, len(names), service.at_once):
                _ask(service, names[start : start + service.at_once], client, found, report)
                on_progress("Looking up", report.n_asked, len(wanted))
        except ServiceError as error:
            report.failed[service.name] = error.detail
    return report


def _ask(
    service: Service, lookups: Sequence[str], client: PoliteClient, found: FoundPapers, report: LookupReport
) -> None:
    url, params = service.address([each.partition(":")[2] for each in lookups], client.contact)
    body = client.get(url, params, every_s=service.every_s)
    papers = {} if body is None else service.papers(body)
    # Nothing but what was asked for; a service may know a paper by another name as well.
    given = {lookup: papers[lookup] for lookup in lookups if lookup in papers}
    if given:
        found.add(given)
    report.n_asked += len(lookups)
    report.n_found += len(given)
    report.without_abstract += sum(paper.lacks_abstract for paper in given.values())
    report.unknown += [lookup for lookup in lookups if lookup not in given]
