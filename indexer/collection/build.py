"""The pipeline: corpus -> catalog -> sentence vectors and facets -> segments -> generation.

A corpus is staged in the catalog, encoded by content hash, and published in portions. After an interruption,
the papers encoded so far stay in ``DATA/building/corpus`` until they are published.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from itertools import islice
from pathlib import Path
from typing import Any, Final

from indexer.catalog.catalog import Catalog
from indexer.catalog.quarantine import QuarantinedPaper
from indexer.catalog.staging import Version
from indexer.collection.changes import expect_no_other_collection, publish_pending, shown_change
from indexer.collection.growth import BOUNDS, Bounds, prepare_segments, publish_changes, publish_whole
from indexer.collection.merging import compact, merge
from indexer.collection.publishing import served_models
from indexer.collection.staging import StagingReport, load_key, stage_corpora
from indexer.encoding.arguments import BuildArguments, expect_made_like, new_manifest, note_begun
from indexer.encoding.encode_versions import (
    EncodedVersions,
    cumulative_progress,
    encode_versions,
    none_encoded,
)
from indexer.encoding.known import KnownVersions
from indexer.encoding.parts import Encode, EncodeHere
from indexer.files.data_folder import KEEP, DataFolder, Work
from indexer.files.durable import discard_folder, storage_errors
from indexer.files.progress_notes import read_note, write_note
from indexer.index.vector_index import check_backend
from indexer.snapshot.folder import current_generation, read_manifest
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot, served_snapshot
from indexer.snapshot.removal import remove_old_generations
from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.errors import BuildLockedError, SnapshotCorruptError, StorageError
from models.types import ProgressFn, Unit

_TIDYING_S: Final = 2.0  # the most that a service takes to remove the files of a killed build
_NO_MORE: Final = 2**31 - 1  # keys


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The result of a build.

    ``manifest`` is the manifest of the generation served afterwards, even if nothing was new. ``replaced``
    counts papers that the collection had with other content, ``reused_papers`` papers that were encoded
    before; ``quarantined`` papers could not be encoded and are not shown. ``unmerged`` says why segments that
    are due were not merged, empty if they were; ``took_s`` is wall time.
    """

    manifest: Manifest
    staging: StagingReport
    replaced: int
    dropped_sentences: int
    reused_papers: int
    quarantined: tuple[QuarantinedPaper, ...]
    unmerged: str
    took_s: float


def build(
    corpora: Sequence[Path],
    data: Path,
    annotator: Annotator,
    *,
    arguments: BuildArguments,
    on_progress: ProgressFn,
    catalog: str | Path | None = None,
    replace: bool = False,
    keep: int = KEEP,
    bounds: Bounds = BOUNDS,
    encode: AbstractContextManager[Encode] | None = None,
) -> BuildReport:
    """Add ``corpora`` to the collection in ``data``, or with ``replace`` make them the whole collection.

    Only new or changed papers are encoded; they become current in the ``catalog`` (a URL or path; default:
    the file in ``data``), and a new generation with them is served. Until then the old generation is served.
    The newest ``keep`` older generations remain, and those in use. ``encode`` encodes elsewhere, with the
    same result as ``annotator`` on this machine; its context ends before another process may build.

    Raises CorpusError, EncoderError, StorageError, BuildLockedError; EncoderMismatchError if the collection
    was made with other models; BrokenFileError if a file cannot be read to its end with ``replace``.
    """
    started = time.perf_counter()
    check_backend(arguments.backend, arguments.device)
    folder = DataFolder(data)
    with (
        storage_errors(data),
        folder.working(Work.CORPUS, wait_s=_TIDYING_S),
        Catalog.open_of(data, catalog or folder.catalog) as papers,
        encode or nullcontext(EncodeHere(annotator)) as encoder,
    ):
        expect_no_other_collection(folder, papers, catalog or folder.catalog)
        like = new_manifest(annotator, arguments)
        load = _Load(data, papers, annotator, encoder, arguments, replace, keep, bounds, on_progress, like)
        staging = load.stage(corpora)
        load.publish_all(staging.n_papers)
        manifest, unmerged = load.publish_rest()
        discard_folder(load.work)
    return BuildReport(
        manifest=manifest,
        staging=staging,
        replaced=load.n_replaced,
        dropped_sentences=load.n_dropped if manifest.encoder.unit is Unit.SENTENCE else 0,
        reused_papers=load.n_reused,
        quarantined=tuple(load.quarantined),
        unmerged=unmerged or load.unmerged,
        took_s=time.perf_counter() - started,
    )


@dataclass(slots=True)
class _Load:
    """The input of one build, and its progress so far."""

    data: Path
    catalog: Catalog
    annotator: Annotator
    encode: Encode
    arguments: BuildArguments
    replace: bool
    keep: int
    bounds: Bounds
    on_progress: ProgressFn
    like: Manifest
    key: str = ""
    n_replaced: int = 0
    n_dropped: int = 0
    n_reused: int = 0
    quarantined: list[QuarantinedPaper] = field(default_factory=list)
    unmerged: str = ""
    is_unstated: bool = False

    @property
    def work(self) -> Path:
        """The folder of papers that are encoded but not yet published."""
        return DataFolder(self.data).work(Work.CORPUS)

    def stage(self, corpora: Sequence[Path]) -> StagingReport:
        """Stage the papers that are new or changed; the served snapshot is only kept open meanwhile."""
        base = self._base()
        self.like = self.like if base is None else base.manifest
        lookups, arguments = DataFolder(self.data).lookups, self.arguments
        self.key = load_key(corpora, lookups, arguments, replace=self.replace)
        staging = stage_corpora(
            corpora,
            self.catalog,
            self.key,
            base,
            lookups=lookups,
            read_by=arguments,
            whole=self.replace,
            on_progress=self.on_progress,
        )
        if base is None:
            note_begun(self.data, arguments)
        return staging

    def publish_all(self, n_papers: int) -> None:
        """Encode and publish the staged papers, then merge the new segments."""
        added_before = DataFolder(self.data).published_segments
        note = read_note(added_before)  # of a run that was interrupted
        added = {*note["segments"]} if note.get("load") == self.key else set()
        waiting: tuple[QuarantinedPaper, ...] = ()
        tell = cumulative_progress(self.on_progress, n_papers)
        for some, up_to in self._portions():
            encoded = encode_versions(
                ((each.paper_id, each.content_hash) for each in some),
                self.catalog,
                self.encode,
                like=self.like,
                known=KnownVersions(self.data, self.like, into=self.work),
                on_done=tell,
                at_once=self.bounds.part,
            )
            encoded = replaced(encoded, quarantined=(*waiting, *encoded.quarantined))
            # The first generation needs a paper: portions in which none could be encoded wait for the next.
            waiting = () if encoded.parts or self._base() is not None else encoded.quarantined
            if waiting:
                continue
            if new := self._publish(encoded, up_to):
                added |= new
                write_note(added_before, {"load": self.key, "segments": sorted(added)})
            self._note(encoded)
            for folder in encoded.emptied:
                discard_folder(folder)
        if waiting:
            raise none_encoded(waiting)
        if len(added) > 1:
            self._join(added)

    def publish_rest(self) -> tuple[Manifest, str]:
        """Publish the remaining changes of the catalog and merge segments.

        Returns the manifest served then, and why segments were not merged, if they were not.
        """
        alike: dict[str, Any] = {"on_progress": self.on_progress, "keep": self.keep}
        publish_pending(self.data, self.annotator, self.catalog, is_unstated=self.is_unstated, **alike)
        unmerged = ""
        try:
            merge(self.data, device=self.arguments.device, **alike)
            with DataFolder(self.data).publishing():
                # Files of a killed merge, and generations that were kept while papers were copied from them.
                remove_old_generations(self.data, keep=self.keep)
        except BuildLockedError:  # a service is merging already
            pass
        except (StorageError, SnapshotCorruptError) as error:  # all papers are published
            unmerged = str(error)
        return read_manifest(self.data, current_generation(self.data)), unmerged

    def _portions(self) -> Iterator[tuple[Iterable[Version], int]]:
        """Yield the versions that are published together, and the highest catalog key to publish."""
        versions = self.catalog.staged(self.key)
        if self.replace or not self.bounds.publish_every:
            yield versions, _NO_MORE
            return
        while some := list(islice(versions, self.bounds.publish_every)):
            yield some, some[-1].key

    def _publish(self, encoded: EncodedVersions, up_to: int) -> set[str]:
        """Make encoded versions current and serve them; return the names of their segments."""
        new = prepare_segments(
            self.work,
            encoded.parts,
            like=self.like,
            device=self.arguments.device,
            most_rows=self.bounds.most_rows,
            on_progress=self.on_progress,
        )
        base = self._base()
        shown = None if base is None else shown_change(self.catalog, base)
        change = self.catalog.publish(self.key, up_to, replace=self.replace)
        served = served_models(self.data) if self.replace else ""
        seen = encoded.note(self.catalog, self.like.models_key, seen=change.number, served=served)
        if not new:
            return set()
        if base is None:
            n_versions = encoded.n_papers + len(encoded.quarantined)
            manifest = publish_whole(
                self.data,
                new,
                self.annotator,
                self.catalog,
                like=replaced(self.like, change=seen),
                into=self.work,
                replaces=self.replace,
                shows_all=self.replace or self.catalog.count() == n_versions,
                keep=self.keep,
            )
            return {entry.name for entry in manifest.segments}
        shared = (base.shared_with(each.open(), but=each.gone) for each in new)
        self.n_replaced += sum(int(base.live[positions].sum()) for positions in shared)
        are_all = shown == change.previous
        manifest, was_served = publish_changes(
            self.data, base, new, self.catalog, seen=seen, are_all=are_all, keep=self.keep
        )
        self.is_unstated |= not (was_served and are_all)
        return {entry.name for entry in manifest.segments} - {each.entry.name for each in base.segments}

    def _base(self) -> Snapshot | None:
        """Return the served snapshot, which must be made with the same models; ``None`` with ``replace``.

        It is also ``None`` if nothing is served yet. Raises EncoderMismatchError.
        """
        base = None if self.replace else served_snapshot(self.data)
        if base is not None:
            expect_made_like(base.manifest, self.annotator, self.arguments)
        return base

    def _note(self, encoded: EncodedVersions) -> None:
        self.quarantined += encoded.quarantined
        self.n_reused += encoded.n_reused
        self.n_dropped += sum(part.n_sentences - part.n_rows for part in encoded.parts)

    def _join(self, names: set[str]) -> None:
        """Merge the segments that were published one by one, so that a query searches few segments."""
        try:
            compact(
                self.data,
                open_snapshot(self.data, reread=False),
                names=names,
                most_rows=self.bounds.most_rows,
                device=self.arguments.device,
                keep=self.keep,
                on_progress=self.on_progress,
            )
        except BuildLockedError:  # a service is merging already
            return
        except (StorageError, SnapshotCorruptError) as error:  # such as a full disk: all is published
            self.unmerged = str(error)
