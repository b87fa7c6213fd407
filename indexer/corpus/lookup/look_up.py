"""Looks up entries without an abstract, and stores the papers found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from indexer.corpus.lookup.found import FoundPapers
from indexer.corpus.lookup.services import SERVICES, Service
from indexer.corpus.lookup.throttled_client import ThrottledClient
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.corpus.rows import RawPaper
from models.errors import ServiceError
from models.types import ProgressFn

# Statuses that do not depend on the name, so that the next requests would get them too.
_SERVICE_WIDE_STATUSES: Final = frozenset({401, 403, 408, 425, 429})


@dataclass(slots=True)
class LookupReport:
    """The outcome of a lookup of names.

    ``unknown`` are the names that their service does not have; ``without_abstract`` counts the papers found
    without an abstract; ``refused`` has the reason of each name that a service refused, by that name;
    ``failed`` has the reason of each service that was given up, by the name of the service.
    """

    n_looked_up: int = 0
    n_found: int = 0
    without_abstract: int = 0
    unknown: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def look_up(
    corpora: Sequence[Path],
    folder: Path,
    client: ThrottledClient,
    *,
    format_name: str = "auto",
    on_progress: ProgressFn,
    services: Mapping[str, Service] = SERVICES,
) -> LookupReport:
    """Look up the unresolved entries of ``corpora`` that ``folder`` does not have yet.

    Each answer is stored at once, so that an interrupted run continues where it stopped. If a service fails,
    it is given up, and the other services are used; if it refuses a name, the next names are still requested.
    Raises CorpusError, StorageError, UnknownNameError.
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
                on_progress("Looking up", report.n_looked_up, len(wanted))
        except ServiceError as error:
            report.failed[service.name] = error.detail
    return report


def _ask(
    service: Service,
    lookups: Sequence[str],
    client: ThrottledClient,
    found: FoundPapers,
    report: LookupReport,
) -> None:
    """Look up these names; if a request for several is refused, request each half to isolate the bad name."""
    names = [service.known_as(each.partition(":")[2]) for each in lookups]
    url, params = service.address(names, client.contact)
    try:
        body = client.get(url, params, every_s=service.every_s)
    except ServiceError as error:
        # A service that takes several names per request redirects all requests alike.
        is_elsewhere = service.at_once > 1 and error.status is not None and error.status < 400
        if (
            error.status is None
            or error.status >= 500
            or error.status in _SERVICE_WIDE_STATUSES
            or is_elsewhere
        ):
            raise
        if len(lookups) == 1:
            report.n_looked_up += 1
            report.refused[lookups[0]] = error.detail
            return
        half = len(lookups) // 2
        for part in (lookups[:half], lookups[half:]):
            _ask(service, part, client, found, report)
        return
    papers = {} if body is None else service.papers(body)
    given = _given(service, lookups, papers)
    if given:
        found.add(given)
    report.n_looked_up += len(lookups)
    report.n_found += len(given)
    report.without_abstract += sum(paper.lacks_abstract for paper in given.values())
    report.unknown += [lookup for lookup in lookups if lookup not in given]


def _given(service: Service, lookups: Sequence[str], papers: Mapping[str, RawPaper]) -> dict[str, RawPaper]:
    """Return the requested records of an answer, by the ids used in the library.

    A service that takes one id per request answers with that paper, even under another id.
    """
    if service.at_once == 1:
        return dict(zip(lookups, papers.values(), strict=False))
    given = {}
    for lookup in lookups:
        scheme, _, name = lookup.partition(":")
        if (paper := papers.get(f"{scheme}:{service.known_as(name)}")) is not None:
            given[lookup] = paper
    return given
