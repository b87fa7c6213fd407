"""Versions of papers that are already encoded: in kept generations, and in folders of unfinished work."""

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import UInt64

from indexer.catalog.quarantine import QuarantinedPaper
from indexer.encoding.parts import Part, linked, read_part, refused_in
from indexer.files.arrays import load_array
from indexer.files.data_folder import DataFolder
from indexer.files.finished_folders import NOTE
from indexer.files.progress_notes import read_note
from indexer.snapshot.folder import read_manifest
from indexer.snapshot.manifest import Manifest, SegmentEntry
from indexer.snapshot.opening import open_segments
from indexer.snapshot.segment import IDS, Segment
from indexer.snapshot.segment_writer import KeptPart
from indexer.snapshot.snapshot import Snapshot
from models.checksums import hashes64, matches_checksum
from models.errors import SnapshotError, StorageError


class KnownVersions:
    """The versions that are already encoded by the models of a manifest.

    They are in the segments of every generation that is there, also of those that other processes publish
    meanwhile, and in folders of unfinished work, of commands that were killed or are running. Parts taken
    from those folders are linked into ``into``. Hashes of the segments of ``beside`` are not mapped again.
    """

    def __init__(self, data: Path, like: Manifest, *, into: Path, beside: Snapshot | None = None) -> None:
        self.into = into
        self._segments = _KnownSegments(data, like.models_key, beside)
        self._parts: dict[Path, Part | None] = {}
        self._refused: dict[str, QuarantinedPaper] = {}
        self._folders: list[Path] = []
        hashes = [np.empty(0, dtype=np.uint64)]
        for folder in DataFolder(data).parts():
            with suppress(FileNotFoundError):  # its command ends just now, and removes it
                outline = _outline(folder, (folder / NOTE).stat().st_mtime_ns, like.models_key)
                self._refused |= {paper.content_hash: paper for paper in outline.refused}
                if outline.hashes is not None:
                    hashes.append(outline.hashes)
                    self._folders.append(folder)
        numbers = np.repeat(np.arange(len(self._folders)), [len(own) for own in hashes[1:]])
        together = np.concatenate(hashes)
        order = np.argsort(together)
        self._hashes, self._numbers = together[order], numbers[order]

    def take(self, wanted: dict[str, str]) -> tuple[list[KeptPart], list[QuarantinedPaper], dict[Path, bool]]:
        """Remove from ``wanted`` (content hashes by paper id) the versions that are already encoded.

        Returns the papers, those that could not be encoded, and the folders used, with ``True`` if all papers
        of the folder were taken. Generations of the papers are not removed as long as these are in use.
        """
        refused = [self._refused[digest] for digest in wanted.values() if digest in self._refused]
        for paper in refused:
            del wanted[paper.paper_id]
        parts = [
            _taken(wanted, leased.segment, leased.open, positions)
            for leased in self._segments.likely(wanted)
            if len(positions := leased.segment.versions(wanted))
        ]
        folders = {}
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


@dataclass(frozen=True, slots=True, eq=False)
class _Outline:
    """The papers of a part that its models refused, and the 64-bit hashes of the ids of the others.

    There are no hashes if their file is damaged, or the models are others.
    """

    refused: tuple[QuarantinedPaper, ...] = ()
    hashes: UInt64[np.ndarray, " n_papers"] | None = None


@lru_cache(maxsize=8_192)  # parts, of 8 KB each; thousands are there while a large collection is made
def _outline(folder: Path, _written_ns: int, models: str) -> _Outline:
    """Read the outline of a part of these ``models``, once for each time that it was written.

    The other files are compared with their checksums once they are used, and this one again. Raises
    FileNotFoundError if the part is removed just now, or its note is damaged.
    """
    note = read_note(folder / NOTE)
    if not note:
        raise FileNotFoundError(folder / NOTE)
    if note.get("models") != models:
        return _Outline()
    is_whole = matches_checksum(folder / IDS, note["files"].get(IDS, ""))
    return _Outline(refused_in(note), np.array(load_array(folder / IDS)["hash"]) if is_whole else None)


def _taken(
    wanted: dict[str, str], segment: Segment, reopen: Callable[[], Segment], positions: np.ndarray
) -> KeptPart:
    for paper_id in segment.values("id", positions):
        del wanted[paper_id]
    return KeptPart(reopen, positions)


class _Lease:
    """Keeps a generation from being removed as long as this object exists."""

    def __init__(self, descriptor: int) -> None:
        weakref.finalize(self, os.close, descriptor)


class _Leased:
    """An open segment, with the lease on its generation."""

    def __init__(self, segment: Segment, lease: _Lease) -> None:
        self.segment = segment
        self._lease = lease

    def open(self) -> Segment:
        """Return the segment."""
        return self.segment


@dataclass(frozen=True, slots=True)
class _Place:
    """A segment of a generation, with the sorted 64-bit hashes of its paper ids, memory-mapped."""

    generation: str
    entry: SegmentEntry
    hashes: UInt64[np.ndarray, " n_papers"]

    def may_have(self, hashes: UInt64[np.ndarray, " n"]) -> bool:
        """Return whether a paper probably has one of these hashes; the file was not compared yet."""
        if not len(self.hashes):
            return False
        places = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return bool((self.hashes[places] == hashes).any())


class _KnownSegments:
    """The segments of all generations that were made by the same ``models``, those published last first."""

    def __init__(self, data: Path, models: str, beside: Snapshot | None) -> None:
        self._data = data
        self._models = models
        self._beside = {} if beside is None else {each.entry.name: each for each in beside.segments}
        self._generations: list[str] = []
        self._places: dict[str, _Place] = {}  # by the name of the segment
        self._damaged: list[SegmentEntry] = []
        # A segment stays open, and its generation leased, until the next publication, or as long as papers of
        # it are in use.
        self._recent: list[_Leased] = []
        self._leased: weakref.WeakValueDictionary[str, _Leased] = weakref.WeakValueDictionary()
        self._leases: weakref.WeakValueDictionary[str, _Lease] = weakref.WeakValueDictionary()

    def likely(self, wanted: Mapping[str, str]) -> Iterator[_Leased]:
        """Yield the segments that probably have papers with these ids, whole and open.

        ``wanted`` may shrink meanwhile. What others have published since the last call is included.
        """
        self._refresh()
        n_wanted, hashes = len(wanted), hashes64(wanted)
        for place in [*self._places.values()]:
            if len(wanted) < n_wanted:
                n_wanted, hashes = len(wanted), hashes64(wanted)
            if place.may_have(hashes) and (leased := self._open(place)) is not None:
                yield leased

    def _refresh(self) -> None:
        """Find the segments, if generations were published or removed since."""
        generations = DataFolder(self._data).generations()
        if generations == self._generations:
            return
        self._generations, before, self._places = generations, self._places, {}
        self._recent.clear()
        for name in reversed(generations):
            with suppress(SnapshotError, StorageError):  # damaged, or removed meanwhile
                manifest = read_manifest(self._data, name)
                if manifest.models_key == self._models:
                    for entry in manifest.segments:
                        if entry.name not in self._places:
                            self._add(name, entry, before.get(entry.name))

    def _add(self, generation: str, entry: SegmentEntry, before: _Place | None) -> None:
        """Add a segment, unless its hashes cannot be read."""
        opened = self._beside.get(entry.name)
        if before is not None and before.entry.is_same_as(entry):
            hashes = before.hashes
        elif opened is not None and opened.entry.is_same_as(entry):
            hashes = opened.id_hashes["hash"]
        else:
            try:
                hashes = load_array(DataFolder(self._data).segment(entry.name) / IDS, mmap_mode="r")["hash"]
            except (OSError, ValueError, IndexError):
                return
        self._places[entry.name] = _Place(generation, entry, hashes)

    def _open(self, place: _Place) -> _Leased | None:
        """Return an open segment, or ``None`` if it is damaged, or its generation was removed.

        It is compared with its checksums, unless it has not changed since it was last compared: damage that
        is copied unnoticed would get a valid checksum.
        """
        name = place.entry.name
        leased = self._leased.get(name)
        if leased is not None and leased.segment.entry.is_same_as(place.entry):
            return leased
        if place.entry in self._damaged or (lease := self._lease(place.generation)) is None:
            return None
        try:
            _, found = open_segments(self._data, place.generation, {name}, device="cpu", known={})
            leased = self._leased[name] = _Leased(found[name], lease)
        except (SnapshotError, StorageError, KeyError):
            self._damaged.append(place.entry)
            return None
        self._recent.append(leased)
        return leased

    def _lease(self, generation: str) -> _Lease | None:
        """Return the lease on a generation, or ``None`` if it was removed."""
        lease = self._leases.get(generation)
        if lease is None and (descriptor := DataFolder(self._data).lease(generation)) is not None:
            lease = self._leases[generation] = _Lease(descriptor)
        return lease
