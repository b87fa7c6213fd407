"""Staging: storing the new and changed papers of a corpus in the catalog, without publishing them yet."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import partial
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Final

from indexer.catalog.catalog import Catalog
from indexer.content_hash import content_hash
from indexer.corpus.lookup.found import FOUND_FILE, FoundPapers, note_unresolved
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.encoding.arguments import BuildArguments
from indexer.snapshot.snapshot import Snapshot
from models.checksums import digest_of
from models.errors import BrokenFileError, CorpusError
from models.text.language import other_language
from models.text.sentences import SPLITTER_VERSION
from models.text.words import stems
from models.types import Paper, ProgressFn

_PAPERS_PER_TRANSACTION: Final = 1_000  # papers of one transaction: other writers wait a tenth of a second
_SHOWN: Final = 3  # broken rows
MAX_RETITLED: Final = 10  # enough to see that two libraries share keys


@dataclass(frozen=True, slots=True)
class Retitled:
    """A paper whose title ``after`` shares no word with the title ``before`` of the paper it replaces."""

    paper_id: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.paper_id}: {self.before!r} became {self.after!r}"


@dataclass(slots=True)
class StagingReport:
    """What reading corpora gave: ``n_papers`` are staged, ``unchanged`` papers are served already.

    ``refusals`` reports the other rows, ``languages`` the number of staged papers by foreign language, and
    ``unresolved`` is the file of the ids that can be looked up. ``retitled`` has the first MAX_RETITLED of
    the ``n_retitled`` papers that seem to replace another paper, because a citation key names both.
    """

    n_papers: int = 0
    unchanged: int = 0
    refusals: CorpusReport = dataclass_field(default_factory=CorpusReport)
    languages: dict[str, int] = dataclass_field(default_factory=dict)
    unresolved: Path | None = None
    n_retitled: int = 0
    retitled: list[Retitled] = dataclass_field(default_factory=list)

    def note_retitled(self, found: Iterable[Retitled]) -> None:
        """Count papers that seem to replace another paper, and keep the first."""
        for each in found:
            self.n_retitled += 1
            if len(self.retitled) < MAX_RETITLED:
                self.retitled.append(each)


def load_key(corpora: Sequence[Path], lookups: Path, read_by: BuildArguments, *, replace: bool) -> str:
    """Return the key of a load: a digest of its files (path, size and time of change) and reading options.

    ``lookups`` is the folder of looked-up papers. Raises OSError if a file does not exist.
    """
    paths = list(corpora)
    if (found := lookups / FOUND_FILE).exists():
        paths.append(found)
    stats = [path.stat() for path in paths]
    files = [(str(path.resolve()), s.st_size, s.st_mtime_ns) for path, s in zip(paths, stats, strict=True)]
    # The readers of another release may find other rows.
    readers = {"splitter": SPLITTER_VERSION, "akin": version("akin")}
    options = {name: getattr(read_by, name) for name in ("format_name", "on_error", "limit")}
    options["lookups"] = str(lookups)
    return digest_of({"files": files, "options": options, "replace": replace, **readers})


def stage_corpora(
    corpora: Sequence[Path],
    catalog: Catalog,
    load: str,
    base: Snapshot | None,
    *,
    lookups: Path,
    read_by: BuildArguments,
    whole: bool = False,
    on_progress: ProgressFn,
) -> StagingReport:
    """Stage the papers of ``corpora`` that ``base`` does not show, or that differ in the catalog.

    Staged papers of other loads are removed; papers of this load that an interrupted run staged are not
    staged again. Raises CorpusError, InputError, StorageError; with ``whole``, BrokenFileError if a file
    cannot be read to its end.
    """
    catalog.remove_loads(but=load)
    staging = StagingReport()
    read = partial(
        read_corpus,
        format_name=read_by.format_name,
        on_error=read_by.on_error,
        report=staging.refusals,
        found=FoundPapers(lookups),
        on_rows=lambda n_rows: on_progress("Reading", n_rows, None),
    )
    read_files = (_read_whole(read, path, staging) if whole else read(path) for path in corpora)
    papers = islice(chain.from_iterable(read_files), read_by.limit)
    while some := list(islice(papers, _PAPERS_PER_TRANSACTION)):
        current = {} if base is None else catalog.current_hashes([paper.id for paper in some])
        new = [paper for paper in some if base is None or not _is_shown(paper, current, base)]
        staging.note_retitled(_retitled(new, current, catalog))
        catalog.stage(load, new)
        staging.n_papers += len(new)
        staging.unchanged += len(some) - len(new)
        for language in filter(None, (other_language(paper.abstract) for paper in new)):
            staging.languages[language] = staging.languages.get(language, 0) + 1
    n_rows = staging.refusals.rows
    on_progress("Reading", n_rows, n_rows)
    staging.unresolved = note_unresolved(lookups, staging.refusals.unresolved, corpora)
    if not staging.n_papers and not staging.unchanged:
        raise CorpusError(f"{', '.join(map(str, corpora))}: no usable paper ({_why_none(staging, read_by)})")
    staging.languages = dict(sorted(staging.languages.items(), key=lambda item: -item[1]))
    return staging


def _read_whole(
    read: Callable[[Path], Iterator[Paper]], path: Path, staging: StagingReport
) -> Iterator[Paper]:
    """Yield the papers of a file; raises BrokenFileError if it could not be read to its end."""
    yield from read(path)
    for error in staging.refusals.breaks:
        raise BrokenFileError(
            error.path,
            error.line,
            f"{error.reason}; what replaces a collection must be read to its end, so nothing was replaced",
        ) from error


def _why_none(staging: StagingReport, read_by: BuildArguments) -> str:
    if not staging.refusals.rows and read_by.format_name != "auto":
        return f"no entry of the format {read_by.format_name}; without --format, Akin recognises it"
    refused = "; ".join(map(str, staging.refusals.broken_rows[:_SHOWN])) or "no row has an abstract"
    if not staging.refusals.unresolved:
        return refused
    return (
        f"{refused}; {len(staging.refusals.unresolved):,} can be looked up with --fetch: {staging.unresolved}"
    )


def _retitled(new: Sequence[Paper], current: Mapping[str, str], catalog: Catalog) -> Iterator[Retitled]:
    """Yield the papers whose title shares no word with that of their ``current`` version."""
    changed = {paper.id: paper.title for paper in new if paper.id in current}
    for old in catalog.versions(current[paper_id] for paper_id in changed):
        before, after = set(stems(old.title)), set(stems(changed[old.id]))
        if before and after and before.isdisjoint(after):
            yield Retitled(old.id, old.title, changed[old.id])


def _is_shown(paper: Paper, current: Mapping[str, str], base: Snapshot) -> bool:
    """Return whether ``base`` and the catalog, by its ``current`` hashes, both have the paper unchanged."""
    digest = content_hash(paper)
    return digest == current.get(paper.id) == base.content_hash(paper.id)
