"""Functions that write segments outside the publishing lock, then publish them under it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Int64

from indexer.catalog.catalog import Catalog
from indexer.collection.publishing import move_finished, publish, publishing, served_models
from indexer.encoding.encode_versions import PART_PAPERS, encode_versions
from indexer.encoding.known import KnownVersions
from indexer.encoding.parts import EncodeHere, entry_in
from indexer.files.data_folder import DataFolder, segment_folder
from indexer.files.finished_folders import keep
from indexer.snapshot.manifest import FORMAT_VERSION, Manifest, SegmentEntry
from indexer.snapshot.segment import Segment
from indexer.snapshot.segment_writer import SegmentPart, write_segment
from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.checksums import digest_of
from models.errors import BuildLockedError, EncoderMismatchError
from models.text.words import RULES
from models.types import ProgressFn, Unit, ignore_progress

# Of a segment: bounds the memory and time to write it, and the work that a kill may lose:
# docs/decisions/collections/segment-size.md.
MAX_ROWS: Final = 1_000_000
PUBLISH_EVERY: Final = 50_000  # papers
NO_POSITIONS: Final = np.empty(0, dtype=np.int64)
_FEW_PAPERS: Final = 4  # this many may be encoded under the lock, while others wait to publish


@dataclass(frozen=True, slots=True)
class Bounds:
    """The sizes of units of work: ``part`` papers are encoded, ``publish_every`` papers published at once.

    With ``publish_every=0``, all papers are published at the end, as when a corpus replaces the collection. A
    segment has at most ``most_rows`` vectors, unless a single part has more.
    """

    publish_every: int = PUBLISH_EVERY
    part: int = PART_PAPERS
    most_rows: int = MAX_ROWS


BOUNDS: Final = Bounds()


@dataclass(frozen=True, slots=True)
class NewSegment:
    """A segment in a folder of unfinished work; the papers at the positions ``gone`` are hidden."""

    folder: Path
    entry: SegmentEntry
    gone: Int64[np.ndarray, " n_gone"]

    @property
    def shows_none(self) -> bool:
        """Whether all of its papers are deleted or replaced."""
        return len(self.gone) == self.entry.n_papers

    def open(self, unit: Unit = Unit.SENTENCE, device: str = "cpu") -> Segment:
        """Open the segment in its folder of unfinished work."""
        return Segment(self.folder, self.entry, unit=unit, device=device)

    def ids_among(self, paper_ids: Collection[str]) -> list[str]:
        """Return those of the ids that its papers have, also hidden ones."""
        segment = self.open()
        return segment.values("id", segment.positions(paper_ids))

    def without(self, paper_ids: Collection[str]) -> "NewSegment":
        """Return the same segment with these papers hidden too; ids that it does not contain are ignored."""
        return replace(self, gone=np.union1d(self.gone, self.open().positions(paper_ids)))

    def without_outdated(self, current: Mapping[str, str | None]) -> "NewSegment":
        """Return the same segment with papers hidden that it has in another version than the ``current`` one.

        Versions are content hashes by paper id, ``None`` of deleted papers; other papers are not looked at.
        """
        segment = self.open()
        outdated = np.setdiff1d(segment.positions(current), segment.versions(current))
        return replace(self, gone=np.union1d(self.gone, outdated))


def prepare_segments(
    work: Path,
    parts: Sequence[SegmentPart],
    *,
    like: Manifest,
    device: str,
    most_rows: int = MAX_ROWS,
    on_progress: ProgressFn = ignore_progress,
) -> list[NewSegment]:
    """Write segments of ``parts`` under ``work``, each with at most ``most_rows`` vectors, or of one part.

    Segments that an earlier call finished there are reused. Only the lock on ``work`` is needed.
    """
    backend, prepared = like.arguments["backend"], []
    for numbers in runs_that_fit([part.n_rows for part in parts], range(len(parts)), most_rows):
        run = parts[numbers.start : numbers.stop]
        made_of = {"backend": backend, "format": FORMAT_VERSION, "words": RULES}
        made_of["parts"] = [part.key for part in run]
        folder = segment_folder(work, digest_of(made_of))

        def write(target: Path, run: Sequence[SegmentPart] = run) -> dict[str, Any]:
            return asdict(write_segment(target, run, backend=backend, device=device, on_progress=on_progress))

        prepared.append(NewSegment(folder, entry_in(keep(folder, write), folder), NO_POSITIONS))
    return prepared


def runs_that_fit(sizes: Sequence[int], numbers: Iterable[int], most_rows: int = MAX_ROWS) -> Iterator[range]:
    """Yield runs of adjacent ``numbers``, each as long as fits into a segment, by their ``sizes`` in rows.

    An item that exceeds ``most_rows`` is a run by itself.
    """
    start = end = n_rows = 0
    for number in numbers:
        if end > start and (number != end or n_rows + sizes[number] > most_rows):
            yield range(start, end)
            start = end
        if start == end:
            start, n_rows = number, 0
        end, n_rows = number + 1, n_rows + sizes[number]
    if end > start:
        yield range(start, end)


def move_segments(
    data: Path, new: Sequence[NewSegment]
) -> list[tuple[SegmentEntry, Int64[np.ndarray, "..."]]]:
    """Move the segments that show a paper into place in ``data``; return each with its hidden positions."""
    shown = [each for each in new if not each.shows_none]
    entries = move_finished(data, [(each.folder, each.entry) for each in shown])
    return [(entry, each.gone) for entry, each in zip(entries, shown, strict=True)]


def publish_added(
    data: Path,
    base: Snapshot | None,
    new: Sequence[NewSegment],
    *,
    gone: Int64[np.ndarray, " n_gone"] = NO_POSITIONS,
    replaced: Sequence[Int64[np.ndarray, "..."]] | None = None,
    like: Manifest,
    keep: int,
) -> Manifest:
    """Publish ``base`` with the segments ``new``, whose visible papers replace those of ``base`` by id.

    ``replaced`` has the positions that each replaces, if they are known (``replaced_by``). The papers of
    ``base`` at the positions ``gone`` are hidden. ``like`` gives the models and arguments of
    the new generation, and the catalog and change that it includes. The newest ``keep`` older generations
    remain, and those in use. The caller must hold the publishing lock.
    """
    segments: list[tuple[SegmentEntry, Int64[np.ndarray, ...]]] = []
    if base is not None:
        replaced = replaced_by(base, new) if replaced is None else replaced
        places = zip(base.segments, _deleted_with(base, np.concatenate([gone, *replaced])), strict=True)
        segments = [(segment.entry, own) for segment, own in places if len(own) < len(segment)]
    segments += move_segments(data, new)
    return publish(data, like, segments, now=base, keep=keep)


def replaced_by(base: Snapshot, new: Sequence[NewSegment]) -> list[Int64[np.ndarray, "..."]]:
    """Return, for each new segment, the positions of the papers of ``base`` that it replaces."""
    return [base.shared_with(each.open(), but=each.gone) for each in new]


def _deleted_with(
    base: Snapshot, gone: Int64[np.ndarray, " n_gone"]
) -> list[Int64[np.ndarray, " n_deleted"]]:
    """Return ``base.deleted`` as if the papers at the positions ``gone``, in any order, were deleted too.

    Only these papers and those deleted in their segments are looked at, however many others there are. The
    arrays of other segments are the same.
    """
    starts, in_order = np.cumsum([0, *map(len, base.segments)]), np.sort(gone)
    own = np.split(in_order, np.searchsorted(in_order, starts[1:-1]))
    return [
        np.union1d(deleted, new - start) if len(new) else deleted
        for deleted, new, start in zip(base.deleted, own, starts, strict=False)
    ]


def publish_changes(
    data: Path,
    read: Snapshot,
    new: Sequence[NewSegment],
    catalog: Catalog,
    *,
    deleted: Collection[str] = (),
    seen: int,
    are_all: bool,
    keep: int,
) -> tuple[Manifest, bool]:
    """Add the segments ``new`` to the served generation, ``read`` until now, and hide the ``deleted`` papers.

    ``new`` and ``deleted`` are changes of ``catalog`` up to ``seen``, and if they ``are_all`` in which
    ``read`` differs from it, the new generation states that it shows them. Papers that others deleted since
    are hidden too. Papers that others changed again are shown as in ``new``.

    Returns the manifest served afterwards, and whether ``read`` was still served. If others have published
    meanwhile, papers that changed again stay pending, because the served generation may show the newer
    version; and nothing is stated, because it may show an older version of a paper that ``read`` shows.

    Raises StorageError, SnapshotError, BuildLockedError; EncoderMismatchError if ``new`` is to be added to a
    generation made with other models than ``read``.
    """
    # Most of this is read before the lock is taken, and only the changes of the last moment under it.
    last, changed = catalog.last_change(), _concerning(catalog.changed_since(seen), new, deleted)
    found, replaced = read.find_all(deleted), replaced_by(read, new)
    with publishing(data, read) as served:
        manifest = served.manifest
        if new and not manifest.is_made_like(read.manifest):
            raise EncoderMismatchError(
                f"{data}: the collection was encoded again meanwhile. The papers are in the catalog, and "
                "appear with the next publication."
            )
        if changed := changed | _concerning(catalog.changed_since(last), new, deleted):
            removed = {key: None for key, digest in changed.items() if digest is None}
            deleted = {key for key in deleted if key not in changed} | removed.keys()
            outdated = removed if served is read else changed
            new = [left for each in new if not (left := each.without_outdated(outdated)).shows_none]
        is_read = served is read
        is_as_read = is_read and not changed
        gone = found if is_as_read else served.find_all(deleted)
        if not new and not len(gone):
            return manifest, is_read
        if are_all and is_read:
            manifest = replace(manifest, change=max(seen, manifest.change))
        like = replace(manifest, catalog=catalog.identity())
        known = replaced if is_as_read else None
        return publish_added(data, served, new, gone=gone, replaced=known, like=like, keep=keep), is_read


def _concerning(
    changed: Mapping[str, str | None], new: Sequence[NewSegment], deleted: Collection[str]
) -> dict[str, str | None]:
    """Return the changes of papers that are in ``new`` or ``deleted``: others are for others to publish."""
    own = {key for each in new for key in each.ids_among(changed)} if changed else set()
    return {key: changed[key] for key in own.union(changed.keys() & set(deleted))}


def publish_whole(
    data: Path,
    segments: Sequence[NewSegment],
    annotator: Annotator,
    catalog: Catalog,
    *,
    like: Manifest,
    note: Callable[[int], int] = lambda last: last,
    into: Path,
    replaces: bool = True,
    shows_all: bool = True,
    keep: int,
) -> Manifest:
    """Serve ``segments`` instead of the served generation, with all catalog changes since ``like.change``.

    So no paper that others publish meanwhile is missing or outdated. Without ``shows_all`` the segments lack
    papers of the catalog as of that change; these stay pending. Newer changes are encoded ``into`` a folder,
    outside the lock except for a few papers; ``note`` is called under it with the last change, and returns
    what the last change is then. Raises EncoderError, StorageError, BuildLockedError; the last also if a
    generation is served already and this one does not replace it (``replaces``).
    """
    known: KnownVersions | None = None

    def with_changes(
        changed: Mapping[str, str | None], known: KnownVersions, last: int
    ) -> tuple[list[NewSegment], int]:
        wanted = [(key, digest) for key, digest in changed.items() if digest is not None]
        encoded = encode_versions(wanted, catalog, EncodeHere(annotator), like=like, known=known)
        last = encoded.note(catalog, like.models_key, seen=last, served=served_models(data))
        new = prepare_segments(into, encoded.parts, like=like, device=like.arguments["device"])
        # If the new version of a paper cannot be encoded, its old version stays visible.
        outdated = changed.keys() - {paper.paper_id for paper in encoded.quarantined}
        return [*(each.without(outdated) for each in segments), *new], last

    few, seen = _FEW_PAPERS, like.change
    last, newer = catalog.last_change(), catalog.changed_since(seen)  # maybe those of hours: without the lock
    while True:
        if newer:
            known = known or KnownVersions(data, like, into=into)
            segments, seen = with_changes(newer, known, last)
            few *= 2  # so that the loop ends, however much others change
        with DataFolder(data).publishing():
            if not replaces and DataFolder(data).current.is_file():
                raise BuildLockedError(
                    f"{data}: another process has begun the collection meanwhile. Run the command again."
                )
            # Others only publish papers of the catalog, so nothing newer than this can be served now.
            last, newer = catalog.last_change(), catalog.changed_since(seen)
            if not newer or (known is not None and len(newer) <= few):
                if newer and known is not None:
                    segments, last = with_changes(newer, known, last)
                last = note(last) if shows_all else 0
                like = replace(like, change=last, catalog=catalog.identity())
                return publish_added(data, None, segments, like=like, keep=keep)
