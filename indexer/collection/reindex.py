"""Encoding a collection anew, with other models or formats: beside what is served, then in its place.

The papers are those of the catalog, so no corpus is needed. What was done is kept in
``DATA/building/reindex`` until it is published; a run that was killed, or was only to compare, is taken up
where it was:

  begun.json                           the change of the catalog up to which papers were read
  read*.json, part-*.arrow             as in indexer/encoding/reading.py
  vectors-*                            as in indexer/encoding/parts.py
  segment/                             the segment made of them; segment.json, written before, is its entry
  segment.unfinished*                  the same while it is made (indexer/files/steps.py)
  changes/                             the parts of what changed in the catalog meanwhile
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.compute as pc

from indexer.catalog.catalog import Catalog
from indexer.catalog.quarantine import QuarantinedPaper
from indexer.collection.build import BuildArguments, new_manifest
from indexer.collection.changes import (
    EncodedChanges,
    encode_changes,
    encoded_changes,
    expect_catalog_of_served,
)
from indexer.collection.growth import grow
from indexer.collection.publishing import LOCK_WAIT_S, adopt_segment
from indexer.encoding.parts import EncodedPart, encode_parts
from indexer.encoding.reading import (
    PARTS,
    PartBounds,
    Reading,
    finished_reading,
    read_versions,
    unfinished_reading,
)
from indexer.files.durable import discard_folder, publish_folder, storage_errors, writer_lock
from indexer.files.notes import read_note, write_note
from indexer.files.steps import discard_steps
from indexer.index.vector_index import check_backend
from indexer.snapshot.folder import compare_files, segment_folder
from indexer.snapshot.manifest import Manifest, SegmentEntry
from indexer.snapshot.segment import Segment
from indexer.snapshot.segment_writer import write_segment
from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.errors import InputError, SnapshotCorruptError
from models.types import ProgressFn

# So few papers are encoded while others wait to publish.
_FEW_PAPERS: Final = 100
_NOTHING: Final = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The collection encoded anew and not served yet; ``reused_papers`` an earlier run had encoded.

    ``snapshot`` lacks the papers that changed while it was made; ``publish_prepared`` adds them. The
    ``quarantined`` could not be encoded.
    """

    snapshot: Snapshot
    reused_papers: int
    quarantined: tuple[QuarantinedPaper, ...]


@contextmanager
def reindex_lock(data: Path) -> Iterator[None]:
    """Hold what one process at a time may do: prepare and publish.

    Raises BuildLockedError, StorageError.
    """
    with storage_errors(data):
        (data / "building").mkdir(parents=True, exist_ok=True)
    with writer_lock(data / "building" / "reindex.lock"):
        yield


def prepare(
    data: Path,
    annotator: Annotator,
    catalog: Catalog,
    *,
    arguments: BuildArguments,
    on_progress: ProgressFn,
    bounds: PartBounds = PARTS,
) -> Prepared:
    """Encode every paper of ``catalog`` into one segment of its own; what is served stays as it is.

    They are read and encoded in parts of these ``bounds``.

    Raises EncoderError; InputError where the catalog is empty; StorageError, also where it is not that of
    ``data``.
    """
    check_backend(arguments.backend, arguments.device)
    work = _work(data)
    with storage_errors(data):
        _expect_own_catalog(data, catalog)
        work.mkdir(parents=True, exist_ok=True)
        change, reading = _read(work, catalog, on_progress, bounds)
        like = replace(new_manifest(annotator, arguments), change=change)
        parts = encode_parts(
            work, reading, annotator, dtype=like.dtype, precision=arguments.precision, on_progress=on_progress
        )
        changes = encoded_changes(parts)
        changes.expect_some()
        parts = [part for part in parts if part.n_rows]
        entry = _segment(work, parts, like, on_progress)
        segment = _open(work / "segment", entry, like)
        outdated = np.sort(segment.positions(catalog.changed_since(change)))
    entry = replace(entry, n_deleted=len(outdated))
    snapshot = Snapshot(replace(like, segments=(entry,)), [segment], [outdated])
    return Prepared(snapshot, sum(part.reused * part.n_papers for part in parts), changes.quarantined)


def publish_prepared(
    data: Path,
    prepared: Prepared,
    annotator: Annotator,
    catalog: Catalog,
    *,
    on_progress: ProgressFn,
    keep: int,
) -> Manifest:
    """Serve what was prepared, with every change that the catalog saw meanwhile.

    So nothing that the generation served before shows is missing or shows an older version. Raises
    EncoderError, StorageError, BuildLockedError.
    """
    like, work = prepared.snapshot.manifest, _work(data)
    while True:
        changed = catalog.changed_since(like.change)
        encoded = _encode(data, catalog, changed, annotator, like, on_progress)
        with storage_errors(data), writer_lock(data / "LOCK", wait_s=LOCK_WAIT_S):
            # What others publish they take from the catalog, so from here on nothing newer can be served.
            last, now = catalog.last_change(), catalog.changed_since(like.change)
            if len(now.items() - changed.items()) > _FEW_PAPERS:
                continue
            if now != changed:
                encoded = _encode(data, catalog, now, annotator, like, on_progress)
            encoded = replace(encoded, quarantined=(*prepared.quarantined, *encoded.quarantined))
            chunks = prepared.snapshot.column("content_hash").chunks
            hashes = (digest for chunk in chunks for digest in pc.drop_null(chunk).to_pylist())
            encoded.note(catalog, like.models_key, also=hashes)  # read only where some are in quarantine
            entry = adopt_segment(data, work / "segment", like.segments[0])
            like = replace(like, segments=(entry,), change=last, catalog=catalog.identity())
            segment = _open(segment_folder(data, entry.name), entry, like)
            manifest = grow(
                data,
                Snapshot(like, [segment], [_NOTHING]),
                encoded.parts,
                deleted=[paper_id for paper_id, digest in now.items() if digest is None],
                like=like,
                device=like.arguments["device"],
                keep=keep,
            )
            discard_folder(work)
            return manifest


def _work(data: Path) -> Path:
    return data / "building" / "reindex"


def _expect_own_catalog(data: Path, catalog: Catalog) -> None:
    if not catalog.count():
        raise InputError(
            "The catalog holds no paper to encode; name the collection's own with --catalog, or index a "
            "corpus."
        )
    expect_catalog_of_served(data, catalog)


def _read(work: Path, catalog: Catalog, on_progress: ProgressFn, bounds: PartBounds) -> tuple[int, Reading]:
    """The papers of the catalog, in parts on disk, and up to which change they are those.

    Of papers that changed since, it does not matter which version is in a part: they are encoded once more.
    """
    begun, last = work / "begun.json", catalog.last_change()
    change = int(read_note(begun).get("change", -1))
    key = _reading_key(catalog, change)
    reading = finished_reading(work, key) if 0 <= change <= last else None
    if reading is not None:
        on_progress("Reading", reading.n_papers, reading.n_papers)
        return change, reading
    unfinished = unfinished_reading(work, key)
    if not (unfinished.parts and 0 <= change <= last):
        change = last
        write_note(begun, {"change": change})
        unfinished = unfinished_reading(work, _reading_key(catalog, change))
    given = catalog.changed_since(0)

    def on_part(n_done: int) -> None:
        on_progress("Reading", n_done, len(given))

    return change, read_versions(catalog, given, unfinished, on_part=on_part, bounds=bounds)


def _reading_key(catalog: Catalog, change: int) -> str:
    return hashlib.sha256(json.dumps([catalog.place, change]).encode()).hexdigest()


def _segment(
    work: Path, parts: Sequence[EncodedPart], like: Manifest, on_progress: ProgressFn
) -> SegmentEntry:
    """The segment of ``parts``, made now unless an earlier run did and it is whole."""
    # A part's folder is named by its papers and models.
    decisive = [like.arguments["backend"], *(part.folder.name for part in parts)]
    key = hashlib.sha256(json.dumps(decisive).encode()).hexdigest()
    stated, folder = work / "segment.json", work / "segment"
    if content := read_note(stated):
        entry = SegmentEntry(**content["entry"])
        with suppress(SnapshotCorruptError):
            compare_files(folder, entry.files)
            if content["key"] == key:
                return entry
    stated.unlink(missing_ok=True)
    discard_folder(folder)
    unfinished, arguments = work / "segment.unfinished", like.arguments
    entry = write_segment(
        unfinished,
        parts,
        backend=arguments["backend"],
        device=arguments["device"],
        on_progress=on_progress,
    )
    entry = replace(entry, name=folder.name)
    write_note(stated, {"key": key, "entry": asdict(entry)})
    publish_folder(unfinished, folder)
    discard_steps(unfinished)  # last: until the folder is there they are all there is
    return entry


def _open(folder: Path, entry: SegmentEntry, like: Manifest) -> Segment:
    return Segment(folder, entry, unit=like.encoder.unit, device=like.arguments["device"])


def _encode(
    data: Path,
    catalog: Catalog,
    changed: dict[str, str | None],
    annotator: Annotator,
    like: Manifest,
    on_progress: ProgressFn,
) -> EncodedChanges:
    work = _work(data) / "changes"
    return encode_changes(data, work, catalog, changed, annotator, like=like, on_progress=on_progress)
