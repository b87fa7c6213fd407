"""Encodes versions of papers by content hash; reuses what any process has encoded."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from indexer.catalog.catalog import Catalog
from indexer.catalog.quarantine import QuarantinedPaper
from indexer.encoding.parts import Encode, Part, kept_part, linked, refused_in
from indexer.files.data_folder import DataFolder
from indexer.files.kept import NOTE
from indexer.files.notes import read_note
from indexer.snapshot.folder import compare_files
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.segment import IDS, Segment
from indexer.snapshot.segment_writer import KeptPart
from indexer.snapshot.snapshot import Snapshot
from indexer.snapshot.verified import Verified
from models.checksums import hashes64, is_whole
from models.counts import counted
from models.errors import EncoderError, SnapshotCorruptError
from models.types import ProgressFn, unseen

PART_PAPERS: Final = 1_000  # encoded at once: what a kill may cost


@dataclass(frozen=True, slots=True)
class EncodedVersions:
    """Versions of papers, encoded; the ``quarantined`` could not be, and are in none of the ``parts``.

    ``n_reused`` of them had been encoded before. ``folders`` are those of its own that have some of the
    parts, ``emptied`` those of which nothing else is needed.
    """

    parts: tuple[KeptPart, ...]
    quarantined: tuple[QuarantinedPaper, ...]
    n_reused: int
    folders: frozenset[Path]
    emptied: frozenset[Path]

    @property
    def n_papers(self) -> int:
        """Papers in all parts."""
        return sum(len(part) for part in self.parts)

    def note(self, catalog: Catalog, models: str) -> None:
        """Have ``catalog`` remember what could not be encoded by ``models`` (``Manifest.models_key``)."""
        catalog.note_encoding(models, self.hashes(), self.quarantined)

    def hashes(self) -> Iterator[str]:
        """The content hashes of the papers in all parts, read some at a time."""
        for part in self.parts:
            yield from part.table()["content_hash"].to_pylist()


def counting(on_progress: ProgressFn, n_papers: int) -> Callable[[int], None]:
    """Is told how many more papers are encoded, and tells how many of ``n_papers`` are."""
    done = 0

    def tell(n_more: int) -> None:
        nonlocal done
        done += n_more
        on_progress("Encoding", done, n_papers)

    return tell


def none_encoded(quarantined: Sequence[QuarantinedPaper]) -> EncoderError:
    """The error of a collection that would begin without a paper: all are ``quarantined``, one at least."""
    first = quarantined[0]
    return EncoderError(
        f"None of {counted(len(quarantined), 'paper')} could be encoded; the first, {first.paper_id!r}: "
        f"{first.reason}"
    )


class KnownVersions:
    """What is encoded already by the models of a manifest.

    It stands in the segments of what is ``served``, and in folders of unfinished work: a command that was
    killed left them, or one that runs has them. What is taken from there is linked to under ``into``.
    """

    def __init__(self, data: Path, like: Manifest, served: Snapshot | None, *, into: Path) -> None:
        self._data = data
        self.into = into
        self._served = served  # its files stay as long as it is open
        has_same = served is not None and served.manifest.models_key == like.models_key
        self._segments = served.segments if served is not None and has_same else ()
        self._verified = Verified(data)
        self._is_whole: dict[str, bool] = {}  # of a segment, by its name
        self._parts: dict[Path, Part | None] = {}
        self._refused: dict[str, QuarantinedPaper] = {}
        self._folders: list[Path] = []
        hashes = [np.empty(0, dtype=np.uint64)]
        for folder in sorted(path.parent for path in data.glob(f"building/*/part-*/{NOTE}")):
            note = read_note(folder / NOTE)
            if note.get("models") == like.models_key:
                self._refused |= {paper.content_hash: paper for paper in refused_in(note)}
                if is_whole(folder / IDS, note["files"].get(IDS, "")):  # what else it has, once it is used
                    hashes.append(np.load(folder / IDS)["hash"])
                    self._folders.append(folder)
        numbers = np.repeat(np.arange(len(self._folders)), [len(own) for own in hashes[1:]])
        together = np.concatenate(hashes)
        order = np.argsort(together)
        self._hashes, self._numbers = together[order], numbers[order]

    def take(self, wanted: dict[str, str]) -> tuple[list[KeptPart], list[QuarantinedPaper], dict[Path, bool]]:
        """Take out of ``wanted``, content hashes by paper id, what is there.

        Returns the papers, those that could not be encoded, and the folders used; true where all is taken.
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
        """The folders that have papers with these ids."""
        own = hashes64(wanted)
        firsts = np.searchsorted(self._hashes, own, side="left")
        ends = np.searchsorted(self._hashes, own, side="right")
        numbers = {int(self._numbers[i]) for a, b in zip(firsts, ends, strict=True) for i in range(a, b)}
        return [self._folders[number] for number in sorted(numbers)]

    def _part(self, folder: Path) -> Part | None:
        if folder not in self._parts:
            self._parts[folder] = kept_part(linked(folder, self.into))
        return self._parts[folder]

    def _compared(self, segment: Segment) -> bool:
        """Whether a segment is as it was written, or has not changed since it was last seen to be.

        Copied unseen, damage would get a checksum of its own.
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
    on_done: Callable[[int], None] = unseen,
    at_once: int = PART_PAPERS,
) -> EncodedVersions:
    """Encode versions as those of ``like``, but for what is ``known``, ``at_once`` in a part.

    Each is given by the id of its paper and its content hash. What was encoded at once is kept in a folder,
    where ``known`` links to others. ``on_done`` gets how many papers were done since its
    last call. Raises EncoderError, StorageError.
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
    """Some of the versions: what was taken over, ``n_known`` of them, and the ``part`` of the others."""

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
    """The same, each once ``n`` more were begun."""
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
    for paper_id in segment.ids(positions):
        del wanted[paper_id]
    return KeptPart(reopen, positions)
