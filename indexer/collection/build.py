"""The pipeline: corpus -> catalog -> sentence vectors and facets -> segments -> generation.

A corpus is staged in the catalog, encoded by content hash, and published, as often as was asked for. Whatever
was encoded before an interruption stays in ``DATA/building/corpus`` until it is published.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from itertools import islice
from pathlib import Path
from typing import Final

from indexer.catalog.catalog import Catalog
from indexer.catalog.quarantine import QuarantinedPaper
from indexer.catalog.staging import Version
from indexer.collection.changes import absorb, expect_catalog_of_served
from indexer.collection.growth import BOUNDS, Bounds, prepare_segments, publish_changes, publish_whole
from indexer.collection.merging import compact, merge
from indexer.collection.publishing import remove_generations
from indexer.collection.staging import Reading, load_key, stage_corpora
from indexer.encoding.arguments import BuildArguments, expect_made_like, new_manifest
from indexer.encoding.parts import Encode, EncodeHere
from indexer.encoding.versions import EncodedVersions, KnownVersions, counting, encode_versions, none_encoded
from indexer.files.data_folder import KEEP, DataFolder, Work
from indexer.files.durable import discard_folder, storage_errors
from indexer.files.notes import read_note, write_note
from indexer.index.vector_index import check_backend
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot, readable_snapshot, served_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.errors import BuildLockedError
from models.types import ProgressFn, Unit

_TIDYING_S: Final = 2.0  # that a service takes at most to remove what a killed build left
_PUBLISHED: Final = "published.json"  # the segments of a load that is published bit by bit
_NO_MORE: Final = 2**31 - 1  # keys


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did to the collection.

    ``manifest`` is that of the generation served from then on, also where nothing was new. ``replaced`` of
    the papers read had been there with another content; ``reused_papers`` had been encoded before; the
    ``quarantined`` could not be encoded and do not show; ``took_s`` is wall time.
    """

    manifest: Manifest
    reading: Reading
    replaced: int
    dropped_sentences: int
    reused_papers: int
    quarantined: tuple[QuarantinedPaper, ...]
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
    """Add ``corpora`` to the collection in ``data``, or with ``replace`` make them the whole of it.

    Only papers that are new or changed are encoded; they become current in the ``catalog`` (a URL or path;
    default: the file in ``data``), and a new generation with them is served. What was served before stays
    served until then; of older generations the newest ``keep`` remain, and those in use. ``encode`` encodes
    elsewhere what ``annotator`` would here, to the same; its context ends before others may build.

    Raises CorpusError, EncoderError, StorageError, BuildLockedError; EncoderMismatchError where the
    collection was made with other models; BrokenFileError where a file breaks off and is to replace it.
    """
    started = time.perf_counter()
    check_backend(arguments.backend, arguments.device)
    folder = DataFolder(data)
    with (
        storage_errors(data),
        folder.working(Work.CORPUS, wait_s=_TIDYING_S),
        _open_catalog(data, catalog or folder.catalog) as papers,
        encode or nullcontext(EncodeHere(annotator)) as encoder,
    ):
        expect_catalog_of_served(data, papers)
        like = new_manifest(annotator, arguments)
        load = _Load(data, papers, annotator, encoder, arguments, replace, keep, bounds, on_progress, like)
        reading = load.stage(corpora)
        load.publish_all(reading.n_papers)
        manifest = _settled(data, annotator, papers, arguments.device, keep, on_progress)
        discard_folder(load.work)
    return BuildReport(
        manifest=manifest,
        reading=reading,
        replaced=load.n_replaced,
        dropped_sentences=load.n_dropped if manifest.encoder.unit is Unit.SENTENCE else 0,
        reused_papers=load.n_reused,
        quarantined=tuple(load.quarantined),
        took_s=time.perf_counter() - started,
    )


@dataclass(slots=True)
class _Load:
    """What one build brings, and what has become of it so far."""

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

    @property
    def work(self) -> Path:
        """Where encoded papers wait."""
        return DataFolder(self.data).work(Work.CORPUS)

    def stage(self, corpora: Sequence[Path]) -> Reading:
        """Stage what is new; what was served before stays open no longer than that takes."""
        base = self._base()
        self.like = self.like if base is None else base.manifest
        lookups, arguments = DataFolder(self.data).lookups, self.arguments
        self.key = load_key(corpora, lookups, arguments, replace=self.replace)
        return stage_corpora(
            corpora,
            self.catalog,
            self.key,
            base,
            lookups=lookups,
            read_by=arguments,
            whole=self.replace,
            on_progress=self.on_progress,
        )

    def publish_all(self, n_papers: int) -> None:
        """Encode and publish what is staged, then merge the segments that came of it."""
        known = readable_snapshot(self.data)
        note = read_note(self.work / _PUBLISHED)  # of a run that was interrupted
        added = {*note["segments"]} if note.get("load") == self.key else set()
        waiting: tuple[QuarantinedPaper, ...] = ()
        tell = counting(self.on_progress, n_papers)
        for some, up_to in self._portions():
            encoded = encode_versions(
                ((each.paper_id, each.content_hash) for each in some),
                self.catalog,
                self.encode,
                like=self.like,
                known=KnownVersions(self.data, self.like, known, into=self.work),
                on_done=tell,
                at_once=self.bounds.part,
            )
            encoded = replaced(encoded, quarantined=(*waiting, *encoded.quarantined))
            # A collection begins with a portion of which some paper could be encoded.
            waiting = () if encoded.parts or self._base() is not None else encoded.quarantined
            if waiting:
                continue
            if new := self._publish(encoded, up_to):
                added |= new
                write_note(self.work / _PUBLISHED, {"load": self.key, "segments": sorted(added)})
            self._note(encoded)
            for folder in encoded.emptied:
                discard_folder(folder)
        if waiting:
            raise none_encoded(waiting)
        if len(added) > 1:
            self._join(added)

    def _portions(self) -> Iterator[tuple[Iterable[Version], int]]:
        """What is published together, and up to which key of the catalog that is."""
        versions = self.catalog.staged(self.key)
        if self.replace or not self.bounds.publish_every:
            yield versions, _NO_MORE
            return
        while some := list(islice(versions, self.bounds.publish_every)):
            yield some, some[-1].key

    def _publish(self, encoded: EncodedVersions, up_to: int) -> set[str]:
        """Make versions current and serve them: the names of their segments."""
        new = prepare_segments(
            self.work,
            encoded.parts,
            like=self.like,
            device=self.arguments.device,
            most_rows=self.bounds.most_rows,
            on_progress=self.on_progress,
        )
        base = self._base()
        change = self.catalog.publish(self.key, up_to, replace=self.replace)
        encoded.note(self.catalog, self.like.models_key)
        if not new:
            return set()
        if base is None:
            n_versions = encoded.n_papers + len(encoded.quarantined)
            manifest = publish_whole(
                self.data,
                new,
                self.annotator,
                self.catalog,
                like=replaced(self.like, change=change.number),
                into=self.work,
                replaces=self.replace,
                shows_all=self.replace or self.catalog.count() == n_versions,
                keep=self.keep,
            )
            return {entry.name for entry in manifest.segments}
        self.n_replaced += sum(len(base.shared_with(each.open(), but=each.gone)) for each in new)
        manifest = publish_changes(
            self.data, base, new, self.catalog, after=change.previous, seen=change.number, keep=self.keep
        )
        return {entry.name for entry in manifest.segments} - {each.entry.name for each in base.segments}

    def _base(self) -> Snapshot | None:
        """What is added to, made with the same models; none where all is replaced."""
        base = None if self.replace else served_snapshot(self.data)
        if base is not None:
            expect_made_like(base.manifest, self.annotator, self.arguments)
        return base

    def _note(self, encoded: EncodedVersions) -> None:
        self.quarantined += encoded.quarantined
        self.n_reused += encoded.n_reused
        self.n_dropped += sum(part.n_sentences - part.n_rows for part in encoded.parts)

    def _join(self, names: set[str]) -> None:
        """Merge the segments that were published one by one, so that a search has few to look into."""
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
        except BuildLockedError:  # a service merges already
            return


def _settled(
    data: Path, annotator: Annotator, catalog: Catalog, device: str, keep: int, on_progress: ProgressFn
) -> Manifest:
    """What is served once it shows all of the catalog, in segments that need no merge."""
    manifest = absorb(data, annotator, catalog, on_progress=on_progress, keep=keep).manifest
    try:
        manifest = merge(data, device=device, keep=keep, on_progress=on_progress) or manifest
        with DataFolder(data).publishing():
            remove_generations(data, ())  # what an earlier run left that was killed while it joined segments
    except BuildLockedError:  # a service does it already
        pass
    return manifest


def _open_catalog(data: Path, place: str | Path) -> Catalog:
    """That of the collection; it is made only where the collection is."""
    return Catalog.open_existing(place) if DataFolder(data).current.is_file() else Catalog.open(place)
