"""Changes: brings what is served in line with the catalog, which papers are added to and deleted from first.

The catalog holds what was acknowledged; a generation says up to which change of it it has come. Whatever
stops a process in between, the next call goes on from there.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from indexer.catalog import Catalog
from indexer.durable import discard_folder, storage_errors, writer_lock
from indexer.generations import current_generation, read_manifest
from indexer.growth import grow
from indexer.manifest import Manifest
from indexer.parts import EncodedPart, encode_parts
from indexer.reading import read_versions, unfinished_reading
from indexer.snapshot import Snapshot, open_snapshot, served_snapshot
from models.annotator import Annotator
from models.errors import EncoderMismatchError, SnapshotError
from models.types import Precision, ProgressFn

LOCK_WAIT_S: Final = 600.0  # how long to wait for another process to publish


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
                    base = served_snapshot(data, beside=base) or open_snapshot(data)
                    expect_models(base.manifest, annotator)
                    last = expect_own_catalog(base.manifest, catalog)
                    differing = differing_papers(catalog, base, since)
                if not differing:
                    discard_folder(_work(data))
                    return Absorbed(base.manifest, last)
                read = base
                parts = encode_changes(
                    _work(data), catalog, differing, annotator, like=read.manifest, on_progress=on_progress
                )
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
                            parts,
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
        base = open_snapshot(data)
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

    Changes up to ``since`` are known to be shown. Raises StorageError.
    """
    changed = catalog.changed_since(max(since, base.manifest.change))
    return {key: digest for key, digest in changed.items() if digest != base.content_hash(key)}


def encode_changes(
    work: Path,
    catalog: Catalog,
    changed: Mapping[str, str | None],
    annotator: Annotator,
    *,
    like: Manifest,
    on_progress: ProgressFn,
) -> list[EncodedPart]:
    """The versions that ``changed`` names by their hashes, encoded as those of ``like``, in ``work``.

    Raises EncoderError, StorageError.
    """
    work.mkdir(exist_ok=True)
    key = hashlib.sha256(json.dumps(sorted(changed.items())).encode()).hexdigest()
    reading = read_versions(catalog, changed, unfinished_reading(work, key))
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
    return parts


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
