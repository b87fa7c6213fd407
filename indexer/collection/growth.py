"""Writes segments outside the lock and serves them under it: whoever publishes papers does it here."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Int64

from indexer.catalog.catalog import Catalog
from indexer.collection.publishing import adopt_segment, publish, publishing
from indexer.encoding.parts import EncodeHere, entry_in
from indexer.encoding.versions import PART_PAPERS, KnownVersions, encode_versions
from indexer.files.data_folder import DataFolder
from indexer.files.kept import keep
from indexer.snapshot.manifest import FORMAT_VERSION, Manifest, SegmentEntry
from indexer.snapshot.opening import readable_snapshot
from indexer.snapshot.segment import Segment
from indexer.snapshot.segment_writer import SegmentPart, write_segment
from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.checksums import digest_of
from models.errors import BuildLockedError, EncoderMismatchError
from models.text.words import RULES
from models.types import ProgressFn, Unit, unseen

# Of a segment: it bounds what writing one takes, and what a kill may cost:
# docs/decisions/collections/segment-size.md.
MOST_ROWS: Final = 1_000_000
PUBLISH_EVERY: Final = 50_000  # papers
NOTHING: Final = np.empty(0, dtype=np.int64)
_FEW_PAPERS: Final = 4  # so few are encoded while others wait to publish


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is done at once: ``part`` papers are encoded, and ``publish_every`` so many published.

    0: all at the end, as where a corpus replaces all. A segment has at most ``most_rows`` vectors.
    """

    publish_every: int = PUBLISH_EVERY
    part: int = PART_PAPERS
    most_rows: int = MOST_ROWS


BOUNDS: Final = Bounds()


@dataclass(frozen=True, slots=True)
class NewSegment:
    """A segment in a folder of unfinished work, of which the papers at ``gone`` do not show."""

    folder: Path
    entry: SegmentEntry
    gone: Int64[np.ndarray, " n_gone"]

    @property
    def shows_none(self) -> bool:
        """Whether none of its papers show."""
        return len(self.gone) == self.entry.n_papers

    def open(self, unit: Unit = Unit.SENTENCE, device: str = "cpu") -> Segment:
        """The segment, where it is now."""
        return Segment(self.folder, self.entry, unit=unit, device=device)

    def versions(self) -> Iterator[tuple[str, str]]:
        """The ids of its papers, each with the content hash."""
        segment = self.open()
        yield from zip(
            segment.column("id").to_pylist(), segment.column("content_hash").to_pylist(), strict=True
        )

    def without(self, paper_ids: Collection[str]) -> "NewSegment":
        """The same, of which those of the papers do not show either that are in it."""
        return replace(self, gone=np.union1d(self.gone, self.open().positions(paper_ids)))


def prepare_segments(
    work: Path,
    parts: Sequence[SegmentPart],
    *,
    like: Manifest,
    device: str,
    most_rows: int = MOST_ROWS,
    on_progress: ProgressFn = unseen,
) -> list[NewSegment]:
    """Segments of ``parts`` in folders under ``work``, each of at most ``most_rows`` vectors, or of one part.

    One that an earlier call finished there is taken up. No lock is needed but that on ``work``.
    """
    backend, prepared = like.arguments["backend"], []
    for numbers in runs_that_fit([part.n_rows for part in parts], range(len(parts)), most_rows):
        run = parts[numbers.start : numbers.stop]
        made_of = {"backend": backend, "format": FORMAT_VERSION, "words": RULES}
        made_of["parts"] = [part.key for part in run]
        folder = work / f"segment-{digest_of(made_of)[:32]}"

        def write(target: Path, run: Sequence[SegmentPart] = run) -> dict[str, Any]:
            return asdict(write_segment(target, run, backend=backend, device=device, on_progress=on_progress))

        prepared.append(NewSegment(folder, entry_in(keep(folder, write), folder), NOTHING))
    return prepared


def runs_that_fit(
    sizes: Sequence[int], numbers: Iterable[int], most_rows: int = MOST_ROWS
) -> Iterator[range]:
    """Neighbours among those with these ``numbers``, as many as fit into a segment; by ``sizes`` in rows."""
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


def adopted(data: Path, new: Sequence[NewSegment]) -> list[tuple[SegmentEntry, Int64[np.ndarray, "..."]]]:
    """The segments that show a paper, in their place in ``data``, each with what of it does not show."""
    return [(adopt_segment(data, each.folder, each.entry), each.gone) for each in new if not each.shows_none]


def grow(
    data: Path,
    base: Snapshot | None,
    new: Sequence[NewSegment],
    *,
    gone: Int64[np.ndarray, " n_gone"] = NOTHING,
    like: Manifest,
    keep: int,
) -> Manifest:
    """Publish ``base`` with the segments ``new``, of which the papers that show replace those with their ids.

    It goes without those papers of ``base`` that stand at ``gone``. ``like`` says what the new generation is
    made with, and what it holds of the catalog. Of older generations the newest ``keep`` remain, and those in
    use. The caller holds the writer's lock.
    """
    segments: list[tuple[SegmentEntry, Int64[np.ndarray, ...]]] = []
    if base is not None:
        living = base.living.copy()
        living[gone] = False
        for each in new:
            living[base.shared_with(each.open(), but=each.gone)] = False
        places = zip(base.segments, base.of_segments(living), base.of_segments(~living), strict=True)
        segments = [(segment.entry, others) for segment, own, others in places if len(own)]
    segments += adopted(data, new)
    return publish(data, like, segments, keep=keep)


def publish_changes(
    data: Path,
    read: Snapshot,
    new: Sequence[NewSegment],
    catalog: Catalog,
    *,
    deleted: Collection[str] = (),
    after: int | None,
    seen: int,
    keep: int,
) -> Manifest:
    """Add the segments ``new`` to what is served, which was ``read`` before, and hide the ``deleted`` papers.

    These are all changes of ``catalog`` after the change ``after`` up to ``seen``; with ``None`` only some of
    them. Of these papers those that others deleted since are hidden. Those that others changed again are
    shown as they are in ``new``; where others have published meanwhile, they stay pending, as what is served
    may show the newer version. Raises StorageError, SnapshotError, BuildLockedError; EncoderMismatchError
    where what is served by now was made otherwise than ``read``.
    """
    with publishing(data, read) as served:
        manifest = served.manifest
        if new and not manifest.is_made_like(read.manifest):
            raise EncoderMismatchError(
                f"{data}: the collection was encoded anew meanwhile. The papers are in the catalog, and show "
                "with the next publication."
            )
        hidden = list(deleted)
        if catalog.last_change() != seen:
            own = {key: digest for each in new for key, digest in each.versions()}
            now = catalog.current_hashes([*own, *deleted])
            hidden = [key for key in (*own, *deleted) if key not in now]
            changed = [key for key, digest in own.items() if now.get(key) != digest]
            outdated = hidden if served is read else changed
            new = [left for each in new if not (left := each.without(outdated)).shows_none]
        gone = served.find_all(hidden)
        if not new and not len(gone):
            return manifest
        if after is not None and after <= manifest.change:
            manifest = replace(manifest, change=max(seen, manifest.change))
        like = replace(manifest, catalog=catalog.identity())
        return grow(data, served, new, gone=gone, like=like, keep=keep)


def publish_whole(
    data: Path,
    segments: Sequence[NewSegment],
    annotator: Annotator,
    catalog: Catalog,
    *,
    like: Manifest,
    into: Path,
    replaces: bool = True,
    shows_all: bool = True,
    keep: int,
) -> Manifest:
    """Serve ``segments`` in place of what is served, with what ``catalog`` saw since the change of ``like``.

    So nothing that others publish meanwhile is missing or older. Unless the segments show ``shows_all`` of
    the catalog up to that change, the rest is pending. What changed since is encoded ``into`` a folder,
    outside the lock but for a few papers. Raises EncoderError, StorageError, BuildLockedError; the last also
    where something is served that this ``replaces`` not.
    """
    known: KnownVersions | None = None

    def with_changes(changed: Mapping[str, str | None], known: KnownVersions) -> list[NewSegment]:
        wanted = [(key, digest) for key, digest in changed.items() if digest is not None]
        encoded = encode_versions(wanted, catalog, EncodeHere(annotator), like=like, known=known)
        encoded.note(catalog, like.models_key)
        new = prepare_segments(into, encoded.parts, like=like, device=like.arguments["device"])
        # What shows of a paper whose new version cannot be encoded goes on showing.
        outdated = changed.keys() - {paper.paper_id for paper in encoded.quarantined}
        return [*(each.without(outdated) for each in segments), *new]

    few, seen = _FEW_PAPERS, like.change
    while True:
        with DataFolder(data).publishing():
            if not replaces and DataFolder(data).current.is_file():
                raise BuildLockedError(
                    f"{data}: another process has begun the collection meanwhile. Run the command again."
                )
            # What others publish they take from the catalog, so from here on nothing newer can be served.
            last, newer = catalog.last_change(), catalog.changed_since(seen)
            if not newer or (known is not None and len(newer) <= few):
                if newer and known is not None:
                    segments = with_changes(newer, known)
                like = replace(like, change=last if shows_all else 0, catalog=catalog.identity())
                return grow(data, None, segments, like=like, keep=keep)
        known = known or KnownVersions(data, like, readable_snapshot(data), into=into)
        segments, seen = with_changes(newer, known), last
        few *= 2  # so that it ends, however much others change
