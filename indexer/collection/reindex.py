"""Re-indexing: encoding a collection again with other models or formats, then swapping it in.

The papers are read from the catalog, so no corpus is needed. Finished work stays in
``DATA/building/reindex`` until it is published, and the next run continues after one that was killed, or that
only compared:

  part-*, segment-*    encoded papers, and segments made of them, each complete or missing
  prepared.json        written once all are there: the segments, and the catalog change that they include
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from indexer.catalog.catalog import Catalog
from indexer.catalog.quarantine import QuarantinedPaper, including
from indexer.collection.changes import expect_catalog_of_served, prepared_key
from indexer.collection.growth import (
    BOUNDS,
    NO_POSITIONS,
    Bounds,
    NewSegment,
    prepare_segments,
    publish_whole,
)
from indexer.collection.publishing import served_models
from indexer.encoding.arguments import BuildArguments, new_manifest
from indexer.encoding.encode_versions import cumulative_progress, encode_versions, none_encoded
from indexer.encoding.known import KnownVersions
from indexer.encoding.parts import Encode, EncodeHere
from indexer.files.data_folder import DataFolder, Work
from indexer.files.durable import discard_folder, storage_errors
from indexer.files.finished_folders import kept
from indexer.files.progress_notes import read_note, write_note
from indexer.index.vector_index import check_backend
from indexer.snapshot.manifest import Manifest, SegmentEntry
from indexer.snapshot.segment import Segment
from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.errors import InputError
from models.types import ProgressFn


@dataclass(frozen=True, slots=True)
class PreparedCollection:
    """The collection encoded again but not served yet; ``reused_papers`` were encoded by an earlier run.

    ``snapshot`` lacks the papers that changed while it was made; ``segments`` have them in their old version,
    which ``publish_prepared`` replaces.
    ``quarantined`` papers could not be encoded.
    """

    snapshot: Snapshot
    segments: Sequence[NewSegment]
    reused_papers: int
    quarantined: tuple[QuarantinedPaper, ...]


@contextmanager
def reindex_lock(data: Path) -> Iterator[None]:
    """Hold the lock on re-indexing, so that one process at a time prepares and publishes.

    Raises BuildLockedError, StorageError.
    """
    with DataFolder(data).working(Work.REINDEX):
        yield


def prepare(
    data: Path,
    annotator: Annotator,
    catalog: Catalog,
    *,
    arguments: BuildArguments,
    on_progress: ProgressFn,
    bounds: Bounds = BOUNDS,
    encode: AbstractContextManager[Encode] | None = None,
) -> PreparedCollection:
    """Encode every paper of ``catalog`` into new segments; the served generation stays unchanged.

    Papers are encoded within ``bounds``, by ``encode`` if given, else by ``annotator`` here. Raises
    EncoderError; InputError if the catalog is empty; StorageError, also if it is not the catalog of ``data``.
    """
    check_backend(arguments.backend, arguments.device)
    with storage_errors(data), encode or nullcontext(EncodeHere(annotator)) as encoder:
        if not catalog.count():
            raise InputError(
                "The catalog has no paper to encode; name that of the collection with --catalog, or index a "
                "corpus into a new folder."
            )
        expect_catalog_of_served(data, catalog)
        like = new_manifest(annotator, arguments)
        found = _load_prepared(data, like, catalog)
        if found is None:
            DataFolder(data).prepared_segments.unlink(missing_ok=True)  # it is of another re-index
            found = _encode_all(data, like, encoder, catalog, bounds, on_progress)
        like = replace(like, change=found.change)
        outdated = catalog.changed_since(found.change)
        shown = [each.without(outdated) for each in found.segments]
        entries = [replace(each.entry, n_deleted=len(each.gone)) for each in shown]
        unit, device = like.encoder.unit, arguments.device
        snapshot = Snapshot(
            replace(like, segments=tuple(entries)),
            [each.open(unit, device) for each in shown],
            [each.gone for each in shown],
        )
    return PreparedCollection(snapshot, found.segments, found.n_reused, found.quarantined)


@dataclass(frozen=True, slots=True)
class _PreparedSegments:
    """Segments with all papers as of one ``change`` of the catalog."""

    change: int
    segments: Sequence[NewSegment]
    n_reused: int
    quarantined: tuple[QuarantinedPaper, ...]


def _encode_all(
    data: Path,
    like: Manifest,
    encode: Encode,
    catalog: Catalog,
    bounds: Bounds,
    on_progress: ProgressFn,
) -> _PreparedSegments:
    """Encode the papers of the catalog as of its last change; newer versions are published later."""
    change, work = catalog.last_change(), _work(data)
    known = KnownVersions(data, like, into=work)
    encoded = encode_versions(
        ((each.paper_id, each.content_hash) for each in catalog.current(up_to=change)),
        catalog,
        encode,
        like=like,
        known=known,
        on_done=cumulative_progress(on_progress, catalog.count()),
        at_once=bounds.part,
    )
    if not encoded.parts:
        if encoded.quarantined:
            raise none_encoded(encoded.quarantined)
        return _encode_all(data, like, encode, catalog, bounds, on_progress)  # all have just changed
    segments = prepare_segments(
        work,
        encoded.parts,
        like=like,
        device=like.arguments["device"],
        most_rows=bounds.most_rows,
        on_progress=on_progress,
    )
    content = {
        "key": prepared_key(like, catalog),
        "change": change,
        "segments": [asdict(each.entry) for each in segments],
        "quarantined": [asdict(paper) for paper in encoded.quarantined],
    }
    write_note(DataFolder(data).prepared_segments, content)
    return _PreparedSegments(change, segments, encoded.n_reused, encoded.quarantined)


def _load_prepared(data: Path, like: Manifest, catalog: Catalog) -> _PreparedSegments | None:
    """Return the segments that an earlier run prepared with the same models, if all files are intact."""
    work = _work(data)
    note = read_note(DataFolder(data).prepared_segments)
    if note.get("key") != prepared_key(like, catalog) or note["change"] > catalog.last_change():
        return None
    entries = [SegmentEntry(**stated) for stated in note["segments"]]
    if not all(kept(work / entry.name) for entry in entries):
        return None
    quarantined = tuple(QuarantinedPaper(**stated) for stated in note["quarantined"])
    segments = [NewSegment(work / entry.name, entry, NO_POSITIONS) for entry in entries]
    return _PreparedSegments(note["change"], segments, sum(entry.n_papers for entry in entries), quarantined)


def publish_prepared(
    data: Path,
    prepared: PreparedCollection,
    annotator: Annotator,
    catalog: Catalog,
    *,
    keep: int,
) -> Manifest:
    """Serve the prepared segments, with every change of the catalog since they were made.

    So no paper of the generation served before is missing or shown in an older version. Raises EncoderError,
    StorageError, BuildLockedError.
    """
    like, work = prepared.snapshot.manifest, _work(data)
    models, served, hashes = like.models_key, served_models(data), list[str]()
    if waiting := catalog.refused(models) | catalog.refused(served):  # else no hash is read
        of_all = (digest for segment in prepared.snapshot.segments for digest in _hashes(segment))
        hashes = [digest for digest in of_all if digest in waiting]

    def note(last: int) -> int:
        return including(catalog.note_encoding(models, hashes, prepared.quarantined, served), seen=last)

    segments = prepared.segments
    manifest = publish_whole(data, segments, annotator, catalog, like=like, note=note, into=work, keep=keep)
    discard_folder(work)
    return manifest


def _hashes(segment: Segment) -> Iterator[str]:
    for chunk in segment.column("content_hash").chunks:
        yield from chunk.to_pylist()


def _work(data: Path) -> Path:
    return DataFolder(data).work(Work.REINDEX)
