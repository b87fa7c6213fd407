"""Changes: brings what is served in line with the catalog, which papers are added to and deleted from first.

The catalog holds what was acknowledged; a generation says up to which change of it it has come. Whatever
stops a process in between, the next call goes on from there.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from indexer.catalog.catalog import Catalog
from indexer.catalog.quarantine import QuarantinedPaper
from indexer.collection.growth import grow
from indexer.collection.publishing import LOCK_WAIT_S
from indexer.encoding.finished import finished_parts, take_up
from indexer.encoding.parts import EncodedPart, encode_parts
from indexer.encoding.reading import read_versions, unfinished_reading
from indexer.files.durable import discard_folder, storage_errors, writer_lock
from indexer.snapshot.folder import current_generation, read_manifest
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.segment_writer import SegmentPart
from indexer.snapshot.snapshot import Snapshot, open_snapshot, served_snapshot
from models.annotator import Annotator
from models.errors import EncoderError, EncoderMismatchError, SnapshotError
from models.types import Precision, ProgressFn


@dataclass(frozen=True, slots=True)
class Absorbed:
    """What is served now, and up to which ``change`` of the catalog it was compared with it."""

    manifest: Manifest
    change: int


def absorb(
    data: Path,
    annotator: Annotator,
    catalog: Catalog,
    *,
    on_progress: ProgressFn,
    keep: int,
    base: Snapshot | None = None,
    since: int = 0,
    wait_s: float = LOCK_WAIT_S,
) -> Absorbed:
    """Publish a generation with the catalog's changes, if there are any that what is served does not show.

    ``base`` spares opening the served generation where it is that one. Changes up to ``since`` are known to
    be shown. Papers are encoded while no lock is held: meanwhile others may publish, or change them again. A
    paper that changed again is published as it was read, so that one that never rests keeps no other waiting;
    the next call publishes what it has become.

    Raises EncoderError, StorageError, SnapshotError; EncoderMismatchError where what is served was made with
    other models; BuildLockedError where another process still does the same after ``wait_s`` seconds.
    """
    with storage_errors(data):
        (data / "building").mkdir(exist_ok=True)
        with writer_lock(data / "building" / "changes.lock", wait_s=wait_s):
            while True:
                # Not while others publish: what they add is in the catalog already, and soon served.
                with writer_lock(data / "LOCK", wait_s=LOCK_WAIT_S):
                    base = served_snapshot(data, beside=base) or open_snapshot(data, reread=False)
                    expect_models(base.manifest, annotator)
                    last = expect_own_catalog(base.manifest, catalog)
                    differing = differing_papers(catalog, base, since)
                if not differing:
                    discard_folder(_work(data))
                    return Absorbed(base.manifest, last)
                read = base
                encoded = encode_changes(
                    data,
                    _work(data),
                    catalog,
                    differing,
                    annotator,
                    like=read.manifest,
                    on_progress=on_progress,
                )
                encoded.note(catalog, read.manifest.models_key)
                with writer_lock(data / "LOCK", wait_s=LOCK_WAIT_S):
                    base = served_snapshot(data, beside=read) or read
                    newer = catalog.changed_since(last)
                    overtaken = base is not read and newer.keys() & differing.keys()
                    if overtaken or not base.manifest.is_made_like(read.manifest):
                        continue  # what was read may be older than what is served by now
                    manifest = base.manifest
                    if differing_papers(catalog, base, since):  # no other process did the same
                        manifest = grow(
                            data,
                            base,
                            encoded.parts,
                            deleted=[
                                key for key, digest in (*differing.items(), *newer.items()) if not digest
                            ],
                            like=replace(
                                manifest,
                                change=max(last, manifest.change),
                                catalog=catalog.identity(),
                            ),
                            device="cpu",
                            keep=keep,
                            on_progress=on_progress,
                        )
                discard_folder(_work(data))
                return Absorbed(manifest, last)


@dataclass(frozen=True, slots=True)
class Deletion:
    """What a deletion did; ``unknown`` ids were not there."""

    manifest: Manifest
    n_deleted: int
    unknown: tuple[str, ...]


def delete_papers(data: Path, paper_ids: Sequence[str], catalog: Catalog, *, keep: int) -> Deletion:
    """Delete papers from the catalog, then publish a generation without them; other changes stay pending.

    Raises StorageError, BuildLockedError, SnapshotError.
    """
    wanted = dict.fromkeys(paper_ids)
    with storage_errors(data), writer_lock(data / "LOCK", wait_s=LOCK_WAIT_S):
        base = open_snapshot(data, reread=False)
        expect_own_catalog(base.manifest, catalog)
        held = catalog.holding(wanted)
        there = {key: None for key in wanted if key in held or base.find(key) is not None}
        change = catalog.delete(there)
        manifest = base.manifest
        if len(base.find_all(there)):
            covered = change.number if change.previous == manifest.change else manifest.change
            like = replace(manifest, change=covered, catalog=catalog.identity())
            manifest = grow(data, base, (), deleted=there, like=like, device="cpu", keep=keep)
    return Deletion(manifest, len(there), tuple(key for key in wanted if key not in there))


def _work(data: Path) -> Path:
    return data / "building" / "changes"


def differing_papers(catalog: Catalog, base: Snapshot, since: int = 0) -> dict[str, str | None]:
    """The papers that ``base`` shows otherwise than the catalog, with their hashes there (none: deleted).

    Changes up to ``since`` are known to be shown. A paper in quarantine is none of them: ``base`` goes on
    showing what it was before, if it does. Raises StorageError.
    """
    changed = catalog.changed_since(max(since, base.manifest.change))
    differing = {key: digest for key, digest in changed.items() if digest != base.content_hash(key)}
    refused = catalog.refused(base.manifest.models_key) if differing else {}
    return {key: digest for key, digest in differing.items() if digest not in refused}


@dataclass(frozen=True, slots=True)
class EncodedChanges:
    """Versions of papers, encoded; the ``quarantined`` could not be, and are in none of the ``parts``."""

    parts: tuple[SegmentPart, ...]
    quarantined: tuple[QuarantinedPaper, ...]

    def note(self, catalog: Catalog, models: str, *, also: Iterable[str] = ()) -> None:
        """Have ``catalog`` remember what could not be encoded by ``models`` (``Manifest.models_key``).

        Besides those of the parts, versions with the hashes ``also`` could be.
        """
        own = chain.from_iterable(part.table()["content_hash"].to_pylist() for part in self.parts)
        catalog.note_encoding(models, chain(also, own), self.quarantined)

    def expect_some(self) -> None:
        """Refuse to begin a collection without a paper that could be encoded; raises EncoderError."""
        if self.quarantined and not any(part.n_rows for part in self.parts):
            first = self.quarantined[0]
            raise EncoderError(
                f"None of the {len(self.quarantined):,} papers could be encoded; the first, "
                f"{first.paper_id!r}: {first.reason}"
            )


def encoded_changes(parts: Sequence[EncodedPart]) -> EncodedChanges:
    """What was encoded as parts, and what was not."""
    return EncodedChanges(tuple(parts), tuple(chain.from_iterable(part.quarantined for part in parts)))


def encode_changes(
    data: Path,
    work: Path,
    catalog: Catalog,
    changed: Mapping[str, str | None],
    annotator: Annotator,
    *,
    like: Manifest,
    on_progress: ProgressFn,
) -> EncodedChanges:
    """The versions that ``changed`` names by their hashes, encoded as those of ``like``, in ``work``.

    What a build that died after it had put its papers into the catalog had encoded is not encoded again.
    Raises EncoderError, StorageError.
    """
    work.mkdir(exist_ok=True)
    wanted = {digest for digest in changed.values() if digest is not None}
    take_up(data / "building" / "corpus", work, wanted, like.models_key)
    taken = list(finished_parts(work, wanted, like.models_key))
    known = {paper.content_hash for _, refused in taken for paper in refused}
    for part, _ in taken:
        known.update(part.table()["content_hash"].to_pylist())
    missing = {key: digest for key, digest in changed.items() if digest not in known}
    key = hashlib.sha256(json.dumps(sorted(missing.items())).encode()).hexdigest()
    reading = read_versions(catalog, missing, unfinished_reading(work, key))
    parts = encode_parts(
        work,
        reading,
        annotator,
        dtype=like.dtype,
        precision=Precision(like.arguments["precision"]),
        on_progress=on_progress,
    )
    for outdated in {*work.glob("vectors-*")} - {part.folder for part in parts}:
        discard_folder(outdated)
    new = encoded_changes(parts)
    return EncodedChanges(
        (*(part for part, _ in taken), *new.parts),
        (*chain.from_iterable(refused for _, refused in taken), *new.quarantined),
    )


def expect_own_catalog(manifest: Manifest, catalog: Catalog) -> int:
    """The last change of ``catalog``, which is that of the collection; raises StorageError if it is not."""
    last = catalog.last_change()
    manifest.expect_catalog(catalog.identity(), last)
    return last


def expect_catalog_of_served(data: Path, catalog: Catalog) -> None:
    """The same of what is served; any catalog will do where that is nothing, or damaged."""
    with suppress(SnapshotError):
        expect_own_catalog(read_manifest(data, current_generation(data)), catalog)


def expect_models(manifest: Manifest, annotator: Annotator) -> None:
    """Refuse to add papers that would not be read as those that are there; raises EncoderMismatchError."""
    manifest.expect_encoder(annotator.encoder.spec)
    pairs = {
        "facet weights": (manifest.tagger, annotator.tagger.spec),
        "function weights": (manifest.functions, annotator.function_spec),
    }
    for what, (built_with, given) in pairs.items():
        expect_same(what, built_with, given)


def expect_same(what: str, built_with: object, given: object) -> None:
    """Refuse what would make the papers added incomparable; raises EncoderMismatchError."""
    if built_with != given:
        raise EncoderMismatchError(
            f"The collection was built with another {what} than is given now, so that papers added would "
            "not be comparable; leave the option or setting out, or change the whole collection with "
            "`akin reindex` (or --replace)."
        )
