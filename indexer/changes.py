"""Changes: brings what is served in line with the catalog, which papers are added to and deleted from first.

The catalog holds what was acknowledged; a generation says up to which change of it it has come. Whatever
stops a process in between, the next call goes on from there.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from indexer.catalog import Catalog
from indexer.corpus import CorpusReport
from indexer.durable import discard_folder, storage_errors, writer_lock
from indexer.growth import grow
from indexer.manifest import Manifest
from indexer.parts import EncodedPart, encode_parts, read_into_parts
from indexer.snapshot import Snapshot, open_snapshot, served_snapshot
from models.annotator import Annotator
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
    be shown. Papers are encoded before the lock is taken: meanwhile others may publish, or change them again.

    Raises EncoderError, EncoderMismatchError, StorageError, SnapshotError; BuildLockedError where another
    process still does the same after ``wait_s`` seconds.
    """
    with storage_errors(data):
        (data / "building").mkdir(exist_ok=True)
        with writer_lock(data / "building" / "changes.lock", wait_s=wait_s):
            while True:
                base = served_snapshot(data, beside=base) or open_snapshot(data)
                base.manifest.expect_encoder(annotator.encoder.spec)
                last = catalog.last_change()
                differing = _differing(catalog, base, since)
                if not differing:
                    return Absorbed(base.manifest, last)
                parts = _encoded(data, catalog, differing, annotator, base.manifest, on_progress)
                with writer_lock(data / "LOCK", wait_s=LOCK_WAIT_S):
                    if not catalog.changed_since(last).keys() & differing.keys():
                        base = served_snapshot(data, beside=base) or base
                        if not _differing(catalog, base, since):  # another process did the same
                            return Absorbed(base.manifest, last)
                        manifest = grow(
                            data,
                            base,
                            parts,
                            deleted=[paper_id for paper_id, digest in differing.items() if digest is None],
                            like=replace(base.manifest, change=max(last, base.manifest.change)),
                            device="cpu",
                            keep=keep,
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
        held = catalog.holding(wanted)
        there = [key for key in wanted if key in held or base.find(key) is not None]
        change = catalog.delete(there)
        manifest = base.manifest
        if len(base.find_all(there)):
            covered = change.number if change.previous == manifest.change else manifest.change
            like = replace(manifest, change=covered)
            manifest = grow(data, base, (), deleted=there, like=like, device="cpu", keep=keep)
    return Deletion(manifest, len(there), tuple(key for key in wanted if key not in set(there)))


def _work(data: Path) -> Path:
    return data / "building" / "changes"


def _differing(catalog: Catalog, base: Snapshot, since: int) -> dict[str, str | None]:
    """The papers that ``base`` shows otherwise than the catalog, with their hashes there (none: deleted)."""
    changed = catalog.changed_since(max(since, base.manifest.change))
    return {key: digest for key, digest in changed.items() if digest != base.content_hash(key)}


def _encoded(
    data: Path,
    catalog: Catalog,
    differing: Mapping[str, str | None],
    annotator: Annotator,
    like: Manifest,
    on_progress: ProgressFn,
) -> list[EncodedPart]:
    """The changed papers, encoded as those of ``like`` are."""
    hashes = [digest for digest in differing.values() if digest is not None]
    work = _work(data)
    work.mkdir(exist_ok=True)
    reading = read_into_parts(
        catalog.versions(hashes),
        work,
        key=hashlib.sha256(json.dumps(hashes).encode()).hexdigest(),
        report=CorpusReport(),
        is_unchanged=lambda paper: False,
        on_part=lambda n_papers: None,
    )
    return encode_parts(
        work,
        reading,
        annotator,
        dtype=like.dtype,
        precision=Precision(like.arguments["precision"]),
        on_progress=on_progress,
    )
