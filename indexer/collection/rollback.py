"""Going back to an older generation: the catalog gets its papers again, then it is served."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from indexer.catalog.catalog import Catalog
from indexer.collection.publishing import TRIES, served_generation
from indexer.files.data_folder import DataFolder
from indexer.files.durable import storage_errors
from indexer.snapshot.folder import current_generation, pointed_generation, read_manifest, write_pointer
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.removal import base_generation
from indexer.snapshot.snapshot import Snapshot
from models.counts import counted
from models.errors import SnapshotError, SnapshotMissingError, StorageError


@dataclass(frozen=True, slots=True)
class Rollback:
    """The result of a rollback; ``manifest`` is the manifest served afterwards, whether ``is_new`` or not.

    ``n_removed`` papers left the collection, ``n_restored`` got their earlier version back; ``n_unseen`` of
    both had a version that no search had shown yet (``None`` if the manifest served before is damaged). If
    the catalog was left as it is, ``n_pending`` papers have changes that are not searchable yet.
    """

    manifest: Manifest
    is_new: bool
    n_removed: int = 0
    n_restored: int = 0
    n_unseen: int | None = 0
    n_pending: int = 0


def rollback_target(data: Path, to: str | None = None) -> str:
    """Return ``to``, or the generation that the served one was made from; raises SnapshotMissingError."""
    with storage_errors(data):
        known = DataFolder(data).generations()
        served = pointed_generation(data) if known else current_generation(data)  # raises: nothing is there
        target = to or base_generation(data, served)
        if target is None or target not in known:
            raise SnapshotMissingError(
                f"{data}: no generation {to or 'before ' + repr(served)} to go back to; "
                f"known: {', '.join(known) or 'none'}"
            )
    return target


def rollback(data: Path, to: str | None = None, *, catalog: Catalog) -> Rollback:
    """Serve another generation (by default the ``rollback_target``), after verifying it.

    The catalog goes back first: papers get the versions of that generation, papers added since are deleted,
    also those that others add before the swap. Papers that the models of that generation refused, and those
    served now did not, return to the quarantine instead. So if another process publishes before the swap, or
    this one is killed, the same papers are shown; after a kill, repeat it with ``to``, because the default
    changes if another process publishes. Nothing changes if that generation is served already. If no
    generation was served, because CURRENT is lost, the catalog stays as it is: changes since then were not
    to be undone.

    Raises SnapshotMissingError, SnapshotCorruptError, BuildLockedError; StorageError if ``catalog`` is not
    the collection's catalog, or if papers of the generation were purged.
    """
    target = rollback_target(data, to)
    with storage_errors(data):
        served = pointed_generation(data)
        snapshot = open_snapshot(data, target, reread=False)  # not removed as long as it is open
        if target == served:
            return Rollback(snapshot.manifest, is_new=False, n_pending=_n_pending(catalog, snapshot))
        shown: Manifest | None = None
        with suppress(SnapshotError):  # the served manifest may be damaged
            shown = read_manifest(data, served)
        for manifest in filter(None, (snapshot.manifest, shown)):
            manifest.expect_catalog(catalog.identity(), catalog.last_change())
        if _serve_if_lost(data, catalog, snapshot):
            return Rollback(snapshot.manifest, is_new=True, n_pending=_n_pending(catalog, snapshot))
        return _go_back(data, _Undoing(catalog, snapshot, shown))


def _serve_if_lost(data: Path, catalog: Catalog, snapshot: Snapshot) -> bool:
    """Serve a generation if CURRENT names none that is there; return whether it did not."""
    is_lost = served_generation(data) is None
    if is_lost:
        _versions_of(catalog, snapshot, catalog.changed_since(snapshot.manifest.change))
        with DataFolder(data).publishing():
            is_lost = served_generation(data) is None  # or else it was superseded and removed in between
            if is_lost:
                write_pointer(data, snapshot.generation)
    return is_lost


def _versions_of(
    catalog: Catalog, snapshot: Snapshot, changed: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Return the versions (content hashes) that a generation shows of papers, given with the current ones.

    ``None``: it does not show the paper. Raises StorageError if a version was purged while the generation was
    in use: it must not be served again.
    """
    versions = {paper_id: snapshot.content_hash(paper_id) for paper_id in changed}
    earlier = {
        digest: paper_id
        for paper_id, digest in versions.items()
        if digest is not None and digest != changed[paper_id]
    }
    if purged := earlier.keys() - catalog.stored(earlier):
        raise StorageError(
            f"Generation {snapshot.generation} shows {counted(len(purged), 'paper')} that the catalog no "
            f"longer has, such as {min(earlier[digest] for digest in purged)!r}: purged while a process was "
            "reading that generation. Go back to another one, and repeat `akin purge`, which removes this one"
        )
    return versions


def _n_pending(catalog: Catalog, snapshot: Snapshot) -> int:
    changed = catalog.changed_since(snapshot.manifest.change)
    return sum(digest != snapshot.content_hash(paper_id) for paper_id, digest in changed.items())


def _go_back(data: Path, undoing: "_Undoing") -> Rollback:
    """Restore the catalog, then serve its generation; return what was undone.

    The catalog is restored outside the lock, and again if others changed it meanwhile: the generation would
    lack these changes. Only if they did so during each of several tries is it restored under the lock.
    """
    target = undoing.snapshot.generation
    for _ in range(TRIES):
        undoing.restore()
        with DataFolder(data).publishing():
            if undoing.is_complete:
                write_pointer(data, target)
                return undoing.result()
    with DataFolder(data).publishing():
        undoing.restore()
        write_pointer(data, target)
    return undoing.result()


class _Undoing:
    """Setting ``catalog`` back to the papers of ``snapshot``; changes are counted against ``served``."""

    def __init__(self, catalog: Catalog, snapshot: Snapshot, served: Manifest | None) -> None:
        self.snapshot = snapshot
        self._catalog = catalog
        self._served = served
        self._change = -1  # the last change of the catalog, if it has the papers of the snapshot
        self._removed: set[str] = set()
        self._restored: set[str] = set()
        self._unseen: set[str] = set()

    @property
    def is_complete(self) -> bool:
        """Whether nobody has changed the catalog since it was last read to be restored."""
        return self._catalog.last_change() == self._change

    def restore(self) -> None:
        """Set the catalog back."""
        last = self._catalog.last_change()
        changed = self._catalog.changed_since(self.snapshot.manifest.change)
        models, served = self.snapshot.manifest.models_key, self._served
        versions = _versions_of(self._catalog, self.snapshot, changed)
        if served is not None and served.models_key != models:  # which could encode papers that these refused
            refused = self._catalog.refused(models)
            is_left = {key for key, digest in versions.items() if digest is None and changed[key] in refused}
            versions = {key: digest for key, digest in versions.items() if key not in is_left}
        other = {paper_id for paper_id, digest in versions.items() if digest != changed[paper_id]}
        pending = {} if self._served is None else self._catalog.changed_since(self._served.change)
        change = self._catalog.restore(versions, at=self.snapshot.manifest.change)
        self._change = change.number if change.previous == last else last
        removed = {paper_id for paper_id in other if versions[paper_id] is None}
        self._removed |= removed
        self._restored |= other - removed
        self._unseen |= {paper_id for paper_id in other if pending.get(paper_id) is not None}

    def result(self) -> Rollback:
        """Return the counts of all papers that were removed or restored."""
        n_unseen = None if self._served is None else len(self._unseen)
        return Rollback(self.snapshot.manifest, True, len(self._removed), len(self._restored), n_unseen)
