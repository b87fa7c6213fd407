"""Encoding of versions of papers by content hash, reusing vectors that any process has encoded."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from indexer.catalog.catalog import Catalog
from indexer.catalog.quarantine import QuarantinedPaper
from indexer.encoding.parts import Encode, Part, linked, read_part, refused_in
from indexer.files.arrays import load_array
from indexer.files.data_folder import DataFolder
from indexer.files.finished_folders import NOTE
from indexer.files.progress_notes import read_note
from indexer.snapshot.checksum_record import ChecksumRecord
from indexer.snapshot.folder import compare_files
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.segment import IDS, Segment
from indexer.snapshot.segment_writer import KeptPart
from indexer.snapshot.snapshot import Snapshot
from models.checksums import hashes64, matches_checksum
from models.counts import counted
from models.errors import EncoderError, SnapshotCorruptError
from models.types import ProgressFn, ignore_progress

PART_PAPERS: Final = 1_000  # encoded at once: the most work that a kill may lose


@dataclass(frozen=True, slots=True)
class EncodedVersions:
    """Encoded versions of papers; ``quarantined`` papers could not be encoded, and are not in ``parts``.

    ``n_reused`` papers had been encoded before. ``folders`` are the folders of unfinished work with papers of
    the parts; no other papers of the ``emptied`` folders are needed.
    """

    parts: tuple[KeptPart, ...]
    quarantined: tuple[QuarantinedPaper, ...]
    n_reused: int
    folders: frozenset[Path]
    emptied: frozenset[Path]

    @property
    def n_papers(self) -> int:
        """The number of papers in all parts."""
        return sum(len(part) for part in self.parts)

    def note(self, catalog: Catalog, models: str) -> None:
        """Record in ``catalog`` which papers ``models`` (``Manifest.models_key``) could not encode."""
        catalog.note_encoding(models, self.hashes(), self.quarantined)

    def hashes(self) -> Iterator[str]:
        """Yield the content hashes of the papers in all parts, read part by part."""
        for part in self.parts:
            yield from part.table()["content_hash"].to_pylist()


def cumulative_progress(on_progress: ProgressFn, n_papers: int) -> Callable[[int], None]:
    """Return a callback that adds up encoded papers and reports the total of ``n_papers``."""
    done = 0

    def tell(n_more: int) -> None:
        nonlocal done
        done += n_more
        on_progress("Encoding", done, n_papers)

    return tell


def none_encoded(quarantined: Sequence[QuarantinedPaper]) -> EncoderError:
    """Return the error of a new collection all of whose papers (one at least) are ``quarantined``."""
    first = quarantined[0]
    return EncoderError(
        f"None of {counted(len(quarantined), 'paper')} could be encoded; the first, {first.paper_id!r}: "
        f"{first.reason}"
    )


class KnownVersions:
    """The versions that are already encoded by the models of a manifest.

    They are in the segments of the ``served`` snapshot, and in folders of unfinished work, of commands that
    were killed or are running. Parts taken from those folders are linked into ``into``.
    """

    def __init__(self, data: Path, like: Manifest, served: Snapshot | None, *, into: Path) -> None:
        self._data = data
        self.into = into
        self._served = served  # its files are not removed as long as it is open
        has_same = served is not None and served.manifest.models_key == like.models_key
        self._segments = served.segments if served is not None and has_same else ()
        self._verified = ChecksumRecord(data)
        self._is_whole: dict[str, bool] = {}  # of a segment, by its name
        self._parts: dict[Path, Part | None] = {}
        self._refused: dict[str, QuarantinedPaper] = {}
        self._folders: list[Path] = []
        hashes = [np.empty(0, dtype=np.uint64)]
        for folder in sorted(path.parent for path in data.glob(f"building/*/part-*/{NOTE}")):
            with suppress(FileNotFoundError):  # its command ends just now, and removes it
                note = read_note(folder / NOTE)
                if note.get("models") == like.models_key:
                    self._refused |= {paper.content_hash: paper for paper in refused_in(note)}
                    # Other files are compared once they are used.
                    if matches_checksum(folder / IDS, note["files"].get(IDS, "")):
                        hashes.append(load_array(folder / IDS)["hash"])
                        self._folders.append(folder)
        numbers = np.repeat(np.arange(len(self._folders)), [len(own) for own in hashes[1:]])
        together = np.concatenate(hashes)
        order = np.argsort(together)
        self._hashes, self._numbers = together[order], numbers[order]

    def take(self, wanted: dict[str, str]) -> tuple[list[KeptPart], list[QuarantinedPaper], dict[Path, bool]]:
        """Remove from ``wanted`` (content hashes by paper id) the versions that are already encoded.

        Returns the papers, those that could not be encoded, and the folders used, with ``True`` if all papers
        of the folder were taken.
        """
        refused = [self._refused[digest] for digest in wanted.values() if digest in self._refused]
        for paper in refused:
            del wanted[paper.paper_id]
        parts: list[KeptPart] = []
        folders = {}
        for segment in self._segments:
            positions = segment.versions(wanted)
            if len(positions) and self._compared(segment):
                parts.append(_taken(wanted, segment, segment.itself, positions))
        for folder in self._likely(wanted):
            part = self._part(folder)
            if part is not None and len(positions := part.open().versions(wanted)):
                parts.append(_taken(wanted, part.open(), part.open, positions))
                folders[part.folder] = len(positions) == part.entry.n_papers
        return parts, refused, folders

    def _likely(self, wanted: Mapping[str, str]) -> list[Path]:
        """Return the folders that probably have papers with these ids, by 64-bit hashes."""
        own = hashes64(wanted)
        firsts = np.searchsorted(self._hashes, own, side="left")
        ends = np.searchsorted(self._hashes, own, side="right")
        numbers = {int(self._numbers[i]) for a, b in zip(firsts, ends, strict=True) for i in range(a, b)}
        return [self._folders[number] for number in sorted(numbers)]

    def _part(self, folder: Path) -> Part | None:
        if folder not in self._parts:
            self._parts[folder] = read_part(linked(folder, self.into))
        return self._parts[folder]

    def _compared(self, segment: Segment) -> bool:
        """Return whether a segment matches its checksums, or has not changed since it last did.

        Damage that is copied unnoticed would get a valid checksum.
        """
        name, files = segment.entry.name, segment.entry.files
        if name not in self._is_whole:
            try:
                compare_files(DataFolder(self._data).segment(name), files, self._verified, reread=False)
                self._is_whole[name] = True
                self._verified.save()
            except SnapshotCorruptError:
                self._is_whole[name] = False
        return self._is_whole[name]


def encode_versions(
    versions: Iterable[tuple[str, str]],
    catalog: Catalog,
    encode: Encode,
    *,
    like: Manifest,
    known: KnownVersions,
    on_done: Callable[[int], None] = ignore_progress,
    at_once: int = PART_PAPERS,
) -> EncodedVersions:
    """Encode versions as in the collection ``like``, except ``known`` ones, ``at_once`` papers per part.

    Each version is given by paper id and content hash. Parts are kept in ``known.into``, next to the parts
    that ``known`` links there. ``on_done`` gets how many papers were done since its last call. Raises
    EncoderError, StorageError.
    """
    parts: list[KeptPart] = []
    quarantined: list[QuarantinedPaper] = []
    used: dict[Path, bool] = {}
    n_reused = 0
    begun = (_begin(some, catalog, encode, like, known, on_done) for some in _runs(versions, at_once))
    for run in _ahead(begun, encode.at_once - 1):
        n_reused += run.n_known
        parts += run.taken
        quarantined += run.refused
        used |= run.folders
        if run.part is not None:
            part = run.part()
            if part.entry.n_papers:
                parts.append(KeptPart(part.open, np.arange(part.entry.n_papers)))
            quarantined += part.refused
            used[part.folder] = True
    emptied = frozenset(folder for folder, is_all in used.items() if is_all)
    return EncodedVersions(tuple(parts), tuple(quarantined), n_reused, frozenset(used), emptied)


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of versions: ``n_known`` were already encoded or refused, and ``part`` waits for the others."""

    n_known: int
    taken: Sequence[KeptPart]
    refused: Sequence[QuarantinedPaper]
    folders: Mapping[Path, bool]
    part: Callable[[], Part] | None


def _begin(
    some: Sequence[tuple[str, str]],
    catalog: Catalog,
    encode: Encode,
    like: Manifest,
    known: KnownVersions,
    on_done: Callable[[int], None],
) -> _Run:
    wanted = dict(some)
    taken, refused, folders = known.take(wanted)
    n_known = len(some) - len(wanted)
    on_done(n_known)
    papers = [*catalog.versions(wanted.values())] if wanted else []
    part = encode(known.into, papers, like=like, on_progress=on_done) if papers else None
    return _Run(n_known, taken, refused, folders, part)


def _ahead(runs: Iterator[_Run], n: int) -> Iterator[_Run]:
    """Yield the runs, each only after the next ``n`` have begun."""
    waiting: deque[_Run] = deque()
    for run in runs:
        waiting.append(run)
        if len(waiting) > n:
            yield waiting.popleft()
    yield from waiting


def _runs(versions: Iterable[tuple[str, str]], at_once: int) -> Iterator[Sequence[tuple[str, str]]]:
    iterator = iter(versions)
    while some := list(islice(iterator, at_once)):
        yield some


def _taken(
    wanted: dict[str, str], segment: Segment, reopen: Callable[[], Segment], positions: np.ndarray
) -> KeptPart:
    for paper_id in segment.values("id", positions):
        del wanted[paper_id]
    return KeptPart(reopen, positions)
