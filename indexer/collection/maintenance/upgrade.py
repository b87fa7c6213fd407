"""Upgrading: bringing a collection of an older Akin to the current formats, without encoding it again.

The catalog gets the newest schema, every segment of the served generation gets its words, counted by the
current rules, and unfinished work in older formats is removed. If the upgrade is stopped, the same call again
continues; after it has finished, one more changes nothing.
"""

from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from indexer.catalog.catalog import Catalog
from indexer.catalog.migrations import migrate
from indexer.collection.changes import expect_own_catalog
from indexer.collection.growth import NO_POSITIONS, NewSegment
from indexer.collection.publishing import move_finished, publish, publishing, served_by
from indexer.encoding.parts import entry_in
from indexer.files.data_folder import UNFINISHED, DataFolder, Work, segment_folder
from indexer.files.durable import discard_folder, link_or_copy, storage_errors
from indexer.files.finished_folders import keep as keep_folder
from indexer.snapshot.folder import compare_files
from indexer.snapshot.manifest import Manifest, SegmentEntry
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.segment import PAPERS
from indexer.snapshot.snapshot import Snapshot
from indexer.words.file import WORDS, words_in, write_words
from models.checksums import digest_of, sha256_of
from models.text.words import RULES
from models.types import ProgressFn, ignore_progress

_BLOCKING_WORK: Final = (Work.CORPUS, Work.REINDEX, Work.CHANGES, Work.MERGE)


@dataclass(frozen=True, slots=True)
class UpgradeResult:
    """The result of an upgrade: the schema that the catalog had before, and how many segments got words.

    ``published`` says whether a new generation was published; ``manifest`` is the manifest served afterwards.
    """

    schema: str | None
    n_segments: int
    manifest: Manifest
    published: bool


def upgrade(
    data: Path, place: str | Path, *, keep: int, on_progress: ProgressFn = ignore_progress
) -> UpgradeResult:
    """Bring the collection in ``data``, with its catalog at ``place``, to the current formats.

    Raises StorageError, SnapshotError; BuildLockedError if another process indexes, publishes changes,
    re-indexes, merges or publishes.
    """
    schema, folder = migrate(place), DataFolder(data)
    with storage_errors(data), Catalog.open(place) as catalog, ExitStack() as locks:
        for work in _BLOCKING_WORK:
            locks.enter_context(folder.working(work))
        _drop_older_work(folder)
        base = open_snapshot(data, reread=False)
        expect_own_catalog(base.manifest, catalog)
        lacking = [segment.entry for segment in base.segments if not segment.has_current_words]
        with_words: dict[str, NewSegment] = {}
        for number, entry in enumerate(lacking):
            on_progress("Counting words", number, len(lacking))
            with_words[entry.name] = _with_words(data, entry)
        on_progress("Counting words", len(lacking), len(lacking))
        manifest, published = base.manifest, bool(lacking) or not base.manifest.catalog
        if published:
            with publishing(data, base) as now:
                manifest = _swapped(data, now, with_words, catalog, keep)
        discard_folder(folder.work(Work.UPGRADE))
    return UpgradeResult(schema, len(lacking), manifest, published)


def _with_words(data: Path, entry: SegmentEntry) -> NewSegment:
    """Return a new segment with the files of ``entry``, linked or else copied, and its words counted."""
    source = DataFolder(data).segment(entry.name)

    def write(target: Path) -> dict[str, Any]:
        compare_files(source, {PAPERS: entry.files[PAPERS]})
        for name in entry.files.keys() - {WORDS}:
            link_or_copy(source / name, target / name)
        write_words(target / WORDS, words_in(target / PAPERS))
        return {**asdict(entry), "files": {**entry.files, WORDS: sha256_of(target / WORDS)}}

    digest = digest_of({**entry.files, "rules": RULES})
    folder = segment_folder(DataFolder(data).work(Work.UPGRADE), digest)
    return NewSegment(folder, entry_in(keep_folder(folder, write), folder), NO_POSITIONS)


def _swapped(
    data: Path, now: Snapshot, with_words: dict[str, NewSegment], catalog: Catalog, keep: int
) -> Manifest:
    """Publish a generation like ``now`` in which the segments ``with_words`` replace the old, by name."""
    before = served_by(now)
    names = [entry.name for entry, _ in before if entry.name in with_words]
    moved = move_finished(data, [(with_words[name].folder, with_words[name].entry) for name in names])
    new = dict(zip(names, moved, strict=True))
    served = [(new.get(entry.name, entry), gone) for entry, gone in before]
    like = replace(now.manifest, catalog=catalog.identity())
    return publish(data, like, served, now=now, keep=keep)


def _drop_older_work(data: DataFolder) -> None:
    """Remove the unfinished work of older versions, which no process continues."""
    for folder in [path for path in data.building.iterdir() if path.is_dir()]:
        if folder == data.next_snapshot:  # of whoever publishes now
            continue
        if folder.name in {"segment", "segment.steps", "merge.steps"}:
            discard_folder(folder)
            continue
        of_today = {path for pattern in UNFINISHED for path in folder.glob(pattern)}
        for path in {*folder.iterdir()} - of_today | {*folder.glob("part-*.arrow")}:
            if path.is_dir():
                discard_folder(path)
            else:
                path.unlink()
