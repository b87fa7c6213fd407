"""Deleting papers: from the catalog, then from the served generation, where they are marked."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from indexer.catalog.catalog import Catalog
from indexer.collection.changes import expect_own_catalog, shown_change
from indexer.collection.growth import publish_changes
from indexer.files.durable import storage_errors
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from models.errors import StorageError


@dataclass(frozen=True, slots=True)
class Deletion:
    """The result of a deletion; ``unknown`` ids were not in the collection."""

    manifest: Manifest
    n_deleted: int
    unknown: tuple[str, ...]


def delete_papers(data: Path, paper_ids: Sequence[str], catalog: Catalog, *, keep: int) -> Deletion:
    """Delete papers from the catalog, then publish a generation without them; other changes stay pending.

    Raises SnapshotError; StorageError, and BuildLockedError if another process holds the publishing lock: if
    the message says that the deletion is in the catalog, it takes effect with the next publication.
    """
    wanted = dict.fromkeys(paper_ids)
    with storage_errors(data):
        base = open_snapshot(data, reread=False)
        expect_own_catalog(base.manifest, catalog)
        held = catalog.current_hashes(wanted)
        there = {key: None for key in wanted if key in held or base.find(key) is not None}
        shown = shown_change(catalog, base)
        change = catalog.delete(there)
        are_all = shown == change.previous
        with _in_catalog(data, n_deleted=len(there)):
            manifest, _ = publish_changes(
                data, base, (), catalog, deleted=there, seen=change.number, are_all=are_all, keep=keep
            )
    return Deletion(manifest, len(there), tuple(key for key in wanted if key not in there))


@contextmanager
def _in_catalog(data: Path, *, n_deleted: int) -> Iterator[None]:
    """Add to a StorageError that the deletion is in the catalog, though it may not be published."""
    try:
        with storage_errors(data):
            yield
    except StorageError as error:
        if not n_deleted:
            raise
        raise type(error)(
            f"{error}\nThe deletion is in the catalog, and shows with the next publication at the latest."
        ) from error
