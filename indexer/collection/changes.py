"""Functions that apply changes of the catalog to the served generation: additions and deletions together.

The catalog holds every accepted change; a generation records the last change that it includes. If a process
stops in between, the next call continues from there.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

from indexer.catalog.catalog import Catalog
from indexer.catalog.current import Compared, added_after
from indexer.collection.growth import prepare_segments, publish_added, publish_changes
from indexer.collection.publishing import publishing
from indexer.encoding.arguments import expect_models
from indexer.encoding.encode_versions import EncodedVersions, cumulative_progress, encode_versions
from indexer.encoding.known import KnownVersions
from indexer.encoding.parts import EncodeHere
from indexer.files.data_folder import LOCK_WAIT_S, DataFolder, Work
from indexer.files.durable import discard_folder
from indexer.files.progress_notes import read_note
from indexer.snapshot.folder import current_generation, read_manifest
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot, served_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.counts import counted
from models.errors import BuildLockedError, EncoderMismatchError, SnapshotError, StorageError
from models.types import ProgressFn

AT_ONCE: Final = 50_000  # papers published together; the others wait for the next generation


@dataclass(frozen=True, slots=True)
class PublishedState:
    """The served manifest, and the last catalog ``change`` that the generation was compared with."""

    manifest: Manifest
    change: int


def publish_pending(
    data: Path,
    annotator: Annotator,
    catalog: Catalog,
    *,
    on_progress: ProgressFn,
    keep: int,
    base: Snapshot | None = None,
    since: int = 0,
    is_unstated: bool = False,
    wait_s: float = LOCK_WAIT_S,
    at_once: int = AT_ONCE,
) -> PublishedState:
    """Publish the changes of the catalog that the served generation lacks: ``at_once`` papers per generation.

    If ``base`` is the served generation, it need not be opened again, and changes up to ``since`` are taken
    as shown; another generation, such as an older one after a rollback, is compared from its own change.
    Papers are encoded without the publishing lock: meanwhile others may publish, or change them again. A
    paper that changed again is published as it was read, so that a paper that keeps changing does not delay
    others; the next call publishes its newer version.

    If the last generation shows changes that it does not state, because others published at the same moment,
    also if that was in an earlier publication of the caller (``is_unstated``), it is published once more.

    Raises EncoderError, StorageError, SnapshotError; EncoderMismatchError if the served generation was made
    with other models; BuildLockedError if another process is still publishing them after ``wait_s`` seconds.
    """
    folder, compared = DataFolder(data), base
    passed: dict[str, Compared] = {}  # by generation, the changes with which this call compared it
    with folder.working(Work.CHANGES, wait_s=wait_s):
        while True:
            read = served_snapshot(data, beside=base) or open_snapshot(data, reread=False)
            expect_models(read.manifest, annotator)
            last = expect_own_catalog(read.manifest, catalog)
            shown = since if read is compared else 0
            already = passed.get(read.manifest.generation)
            differing = differing_papers(catalog, read, shown, most=at_once, but=already)
            with publishing(data, read) as served:
                if served is not read:  # others published papers that were in the catalog before
                    base = served
                    continue
                manifest = read.manifest
                unstated = not differing and last > manifest.change
                if unstated and (is_unstated or _shows_unstated(catalog, manifest)):
                    like = replace(manifest, change=last)
                    manifest = publish_added(data, read, (), like=like, keep=keep)
            if not differing:
                _remove_published_work(data, catalog)
                return PublishedState(manifest, last)
            encoded = _encoded(data, catalog, differing, annotator, read, on_progress)
            last = encoded.note(catalog, read.manifest.models_key, seen=last)
            new = prepare_segments(_work(data), encoded.parts, like=read.manifest, device="cpu")
            base = served_snapshot(data, beside=read)
            refused = {paper.paper_id for paper in encoded.quarantined}
            if base is not read and base is not None and _shows(base, differing, but=refused):
                is_unstated = True
                continue  # another process has published them
            is_last = len(differing) < at_once
            deleted = [key for key, digest in differing.items() if digest is None]
            with suppress(EncoderMismatchError):  # others re-indexed: the next round opens their generation
                manifest, was_served = publish_changes(
                    data, read, new, catalog, deleted=deleted, seen=last, are_all=is_last, keep=keep
                )
                if is_last and was_served and (manifest.change >= last or not is_unstated):
                    _remove_published_work(data, catalog)
                    return PublishedState(manifest, last)
                is_unstated |= not (is_last and was_served)
                passed = _compared(differing, manifest, last) if was_served else {}


def _shows_unstated(catalog: Catalog, manifest: Manifest) -> bool:
    """Return whether a generation that lacks no paper shows some that were added after the change it states.

    Who published them was killed before stating it. Saved queries would not list them until it is stated.
    """
    refused = {*catalog.refused(manifest.models_key).values()}
    with catalog.database.reading() as connection:
        added = added_after(connection, manifest.change, most=len(refused) + 1)
    return any(paper.paper_id not in refused for paper in added)


def _compared(differing: Mapping[str, str | None], manifest: Manifest, change: int) -> dict[str, Compared]:
    """Return the changes with which a generation was compared that shows all ``differing`` papers."""
    *_, digest = differing.values()  # deleted papers come first
    return {} if digest is None else {manifest.generation: Compared(digest, change)}


def _encoded(
    data: Path,
    catalog: Catalog,
    differing: Mapping[str, str | None],
    annotator: Annotator,
    base: Snapshot,
    on_progress: ProgressFn,
) -> EncodedVersions:
    """Return the versions with the hashes in ``differing``, encoded with the models of ``base``."""
    wanted = [(key, digest) for key, digest in differing.items() if digest is not None]
    like = base.manifest
    known = KnownVersions(data, like, into=_work(data), beside=base)
    tell = cumulative_progress(on_progress, len(wanted))
    encoded = encode_versions(wanted, catalog, EncodeHere(annotator), like=like, known=known, on_done=tell)
    # Parts with versions that have changed again since.
    for outdated in {*DataFolder(data).parts(Work.CHANGES)} - encoded.folders:
        discard_folder(outdated)
    return encoded


def _shows(served: Snapshot, papers: Mapping[str, str | None], *, but: Collection[str]) -> bool:
    """Return whether ``served`` shows these versions (content hashes by id) of all papers except ``but``."""
    return all(served.content_hash(key) == digest for key, digest in papers.items() if key not in but)


def _remove_published_work(data: Path, catalog: Catalog) -> None:
    """Remove encoded papers that are published, also those of commands killed before they did so."""
    discard_folder(_work(data))
    for work, is_published in ((Work.CORPUS, _is_indexed), (Work.REINDEX, _is_reindexed)):
        left = DataFolder(data).work(work)
        if not left.is_dir():  # so that a command that starts now finds the lock free
            continue
        with suppress(BuildLockedError), DataFolder(data).working(work):
            if left.is_dir() and is_published(data, catalog):
                discard_folder(left)


def _is_indexed(_data: Path, catalog: Catalog) -> bool:
    """Return whether all that an index command prepared is published."""
    return not catalog.count_staged()


def _is_reindexed(data: Path, catalog: Catalog) -> bool:
    """Return whether what a re-index prepared is served: the models are, and its segments were moved."""
    folder = DataFolder(data)
    note = read_note(folder.prepared_segments)
    served = read_manifest(data, current_generation(data))
    if note.get("key") != prepared_key(served, catalog):
        return False
    # One of papers that were all deleted meanwhile is not moved.
    return not all((folder.work(Work.REINDEX) / entry["name"]).exists() for entry in note["segments"])


def prepared_key(like: Manifest, catalog: Catalog) -> str:
    """Return what a collection that was encoded again must have in common with one made ``like`` this."""
    return f"{like.models_key} {like.arguments['backend']} {catalog.identity()}"


def _work(data: Path) -> Path:
    return DataFolder(data).work(Work.CHANGES)


def differing_papers(
    catalog: Catalog,
    base: Snapshot,
    since: int = 0,
    *,
    most: int | None = None,
    but: Compared | None = None,
) -> dict[str, str | None]:
    """Return the papers that differ between ``base`` and the catalog, with their hashes in the catalog.

    ``None`` means deleted. At most ``most`` papers are returned, deleted ones first. Changes up to ``since``
    and those compared already (``but``) are taken as shown. Quarantined papers are left out: ``base`` keeps
    the version it shows, if any. Raises StorageError.
    """
    return dict(islice(_differing(catalog, base, since, but), most))


def count_pending(catalog: Catalog, base: Snapshot) -> int:
    """Return the number of papers that differ between ``base`` and the catalog; raises StorageError."""
    return sum(1 for _ in _differing(catalog, base, 0, None))


def _differing(
    catalog: Catalog, base: Snapshot, since: int, but: Compared | None
) -> Iterator[tuple[str, str | None]]:
    refused: Mapping[str, str] | None = None
    with closing(catalog.changes_since(max(since, base.manifest.change), but=but)) as changes:
        for key, digest in changes:
            if digest != base.content_hash(key):
                refused = catalog.refused(base.manifest.models_key) if refused is None else refused
                if digest not in refused:
                    yield key, digest


def shown_change(catalog: Catalog, base: Snapshot) -> int:
    """Return the last change of ``catalog`` if ``base`` shows all changes, else the one of its manifest.

    The manifest has an earlier one after a rollback, or if the papers changed since are quarantined.
    """
    last = catalog.last_change()
    is_shown = last > base.manifest.change and not differing_papers(catalog, base, most=1)
    return last if is_shown else base.manifest.change


def expect_own_catalog(manifest: Manifest, catalog: Catalog) -> int:
    """Return the last change of ``catalog``; raises StorageError if it is not the collection's catalog."""
    last = catalog.last_change()
    manifest.expect_catalog(catalog.identity(), last)
    return last


def expect_no_other_collection(folder: DataFolder, catalog: Catalog, place: str | Path) -> None:
    """Raise StorageError if ``catalog`` is that of another collection than the one in ``folder``.

    For a folder without a collection that is one outside of it (at ``place``) that has papers, unless they
    are of a first build that was interrupted.
    """
    expect_catalog_of_served(folder.root, catalog)
    if place == folder.catalog or folder.has_collection or folder.begun.is_file():
        return
    if n_papers := catalog.count():
        raise StorageError(
            f"The catalog has {counted(n_papers, 'paper')} of another collection, and there is none in "
            f"{folder.root}. Give each collection a catalog of its own (--catalog or AKIN_CATALOG_URL). To "
            "make a collection of the papers of this catalog, run akin reindex with an --encoder."
        )


def expect_catalog_of_served(data: Path, catalog: Catalog) -> None:
    """Raise StorageError if ``catalog`` is not that of the served generation.

    If nothing is served, or the generation is damaged, any catalog is accepted.
    """
    with suppress(SnapshotError):
        expect_own_catalog(read_manifest(data, current_generation(data)), catalog)
