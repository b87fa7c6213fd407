"""The pipeline: corpus -> papers -> sentences -> sentence vectors and facets -> snapshot.

Each stage leaves its result in ``DATA/building/corpus``, so that a build that was interrupted goes on where
it stopped; what was computed is taken up again only if papers and models are the same.
"""

import hashlib
import json
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from dataclasses import replace as replaced
from functools import partial
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Final, Literal

from indexer.catalog.catalog import CATALOG_FILE, Catalog
from indexer.catalog.quarantine import QuarantinedPaper
from indexer.collection.changes import (
    absorb,
    differing_papers,
    encoded_changes,
    expect_catalog_of_served,
    expect_models,
    expect_same,
)
from indexer.collection.growth import grow
from indexer.collection.merging import merge
from indexer.collection.publishing import LOCK_WAIT_S
from indexer.content_hash import content_hash
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.encoding.finished import CATALOGUED
from indexer.encoding.parts import encode_parts
from indexer.encoding.reading import (
    PARTS,
    PartBounds,
    Reading,
    finished_reading,
    papers_of,
    read_into_parts,
    unfinished_reading,
)
from indexer.files.durable import discard_folder, storage_errors, writer_lock
from indexer.files.notes import read_note, write_note
from indexer.index.vector_index import check_backend
from indexer.snapshot.folder import current_generation, read_manifest
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.snapshot import Snapshot, served_snapshot
from models.annotator import Annotator
from models.errors import BuildLockedError, CorpusError, SnapshotMissingError
from models.sentences import SPLITTER_VERSION
from models.types import EncoderSpec, Paper, Precision, ProgressFn, Unit

KEEP: Final = 3  # generations
# Papers added to the catalog at once, a second or two, and how long others who wait to write are then let
# in: with SQLite they look ten times a second.
ADDED_AT_ONCE: Final = 5_000
_GIVE_WAY_S: Final = 0.11


@dataclass(frozen=True, slots=True)
class BuildArguments:
    """What decides the content of a snapshot besides the corpus and the models.

    ``encoder`` is the name or folder to load for queries; ``limit`` counts papers; ``dtype`` ``auto`` stores
    unit vectors as float16 (error about 3e-4 of a distance) and all others as float32; ``tagger`` and
    ``functions`` are files of weights, ``None`` for the shipped ones.
    """

    encoder: str
    format_name: str = "auto"
    on_error: Literal["skip", "fail"] = "skip"
    limit: int | None = None
    backend: str = "auto"
    dtype: Literal["auto", "float16", "float32"] = "auto"
    device: str = "auto"
    precision: Precision = Precision.FLOAT32
    tagger: str | None = None
    functions: str | None = None


def built_with(data: Path) -> BuildArguments | None:
    """The arguments that began the collection in ``data``; ``None`` where there is none yet.

    Raises SnapshotCorruptError.
    """
    try:
        arguments = read_manifest(data, current_generation(data)).arguments
    except SnapshotMissingError:
        return None
    return BuildArguments(**{**arguments, "precision": Precision(arguments["precision"])})


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did to the collection.

    ``manifest`` is that of the generation served from then on, also where nothing was new. ``replaced`` of
    the papers read had been there with another content; ``reused_papers`` were encoded before an
    interruption; the ``quarantined`` could not be encoded and do not show; ``took_s`` is wall time.
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
    parts: PartBounds = PARTS,
    added_at_once: int = ADDED_AT_ONCE,
) -> BuildReport:
    """Add ``corpora`` to the collection in ``data``, or with ``replace`` make them the whole of it.

    Only papers that are new or changed are encoded; they become current in the ``catalog`` (a URL or path;
    default: the file in ``data``), and a new generation with them is served. What was served before stays
    served until then; of older generations the newest ``keep`` remain, and those in use. Papers are read in
    ``parts``; ``added_at_once`` of them go into the catalog before others may write to it.

    Raises CorpusError, EncoderError, StorageError, BuildLockedError; EncoderMismatchError where the
    collection was made with other models.
    """
    started = time.perf_counter()
    check_backend(arguments.backend, arguments.device)
    work = data / "building" / "corpus"
    with storage_errors(data):
        work.parent.mkdir(parents=True, exist_ok=True)
        with (
            writer_lock(data / "building" / "corpus.lock"),
            _open_catalog(data, catalog or data / CATALOG_FILE) as papers,
        ):
            work.mkdir(exist_ok=True)  # not before: one that ends removes it
            expect_catalog_of_served(data, papers)
            base = None if replace else served_snapshot(data)
            pending: frozenset[str] = frozenset()
            if base is not None:
                _expect_same_models(base.manifest, annotator, arguments)
                refused = papers.refused(base.manifest.models_key)
                pending = frozenset({*differing_papers(papers, base), *refused.values()})
            key = _corpora_key(corpora, base, arguments)
            reading = _read(corpora, work, base, pending, arguments, key, on_progress, parts)
            dtype = dtype_of(arguments, annotator.encoder.spec)
            encoded = encode_parts(
                work, reading, annotator, dtype=dtype, precision=arguments.precision, on_progress=on_progress
            )
            changes, n_replaced = encoded_changes(encoded), 0
            if base is None:
                changes.expect_some()
            if encoded:
                with writer_lock(data / "LOCK", wait_s=LOCK_WAIT_S):
                    # Others may have published since.
                    base = None if replace else served_snapshot(data, beside=base)
                    if base is not None:
                        _expect_same_models(base.manifest, annotator, arguments)
                    like = new_manifest(annotator, arguments) if base is None else base.manifest
                    write_note(work / CATALOGUED, {"corpora": key, "reading": reading.key})
                    shown = _add(
                        papers_of(work, reading),
                        papers,
                        shown=like.change,
                        at_once=None if replace else added_at_once,
                    )
                    changes.note(papers, like.models_key)
                    like = replaced(like, change=shown, catalog=papers.identity())
                    if any(part.n_rows for part in encoded):
                        device = arguments.device
                        like = grow(
                            data, base, encoded, like=like, device=device, keep=keep, on_progress=on_progress
                        )
                n_read = sum(part.n_papers for part in encoded)
                n_replaced = n_read + (0 if base is None else len(base)) - like.n_papers
            manifest = _settled(data, annotator, papers, arguments.device, keep, on_progress)
            discard_folder(work)
    n_dropped = sum(part.n_sentences - part.n_rows for part in encoded)
    return BuildReport(
        manifest=manifest,
        reading=reading,
        replaced=n_replaced,
        dropped_sentences=n_dropped if manifest.encoder.unit is Unit.SENTENCE else 0,
        reused_papers=sum(part.n_papers for part in encoded if part.reused),
        quarantined=changes.quarantined,
        took_s=time.perf_counter() - started,
    )


def _settled(
    data: Path, annotator: Annotator, catalog: Catalog, device: str, keep: int, on_progress: ProgressFn
) -> Manifest:
    """What is served once it shows all of the catalog, in segments that need no merge."""
    manifest = absorb(data, annotator, catalog, on_progress=on_progress, keep=keep).manifest
    try:
        return merge(data, device=device, keep=keep, on_progress=on_progress) or manifest
    except BuildLockedError:  # a service does it already
        return manifest


def _open_catalog(data: Path, place: str | Path) -> Catalog:
    """That of the collection; it is made only where the collection is."""
    return Catalog.open_existing(place) if (data / "CURRENT").is_file() else Catalog.open(place)


def _add(papers: Iterator[Paper], catalog: Catalog, *, shown: int, at_once: int | None) -> int:
    """Make papers current, ``at_once`` at a time, so that others who write need not wait for all.

    What is served shows its changes up to ``shown``; returns up to which it does with these papers. With
    ``None`` they replace all, at one go: some of them beside the older papers would be neither collection.
    """
    if at_once is None:
        return catalog.add(papers, replace=True).number
    while some := list(islice(papers, at_once)):
        change = catalog.add(some)
        if change.previous == shown:  # else what others changed is pending, and stays so
            shown = change.number
        if len(some) == at_once:
            time.sleep(_GIVE_WAY_S)
    return shown


def new_manifest(annotator: Annotator, arguments: BuildArguments) -> Manifest:
    """That of a collection without a paper, made with these models."""
    encoder = annotator.encoder.spec
    return Manifest(
        generation="",
        created="",
        encoder=encoder,
        tagger=annotator.tagger.spec,
        functions=annotator.function_spec,
        dtype=dtype_of(arguments, encoder),
        metric="L2",
        splitter=SPLITTER_VERSION,
        segments=(),
        files={},
        change=0,
        arguments=asdict(arguments),
    )


def _expect_same_models(manifest: Manifest, annotator: Annotator, arguments: BuildArguments) -> None:
    """Papers that are added must be encoded and tagged as those that are there."""
    expect_models(manifest, annotator)
    expect_same("dtype", manifest.dtype, dtype_of(arguments, manifest.encoder))
    expect_same("precision", manifest.arguments["precision"], arguments.precision)


def _read(
    corpora: Sequence[Path],
    work: Path,
    base: Snapshot | None,
    pending: Collection[str],
    arguments: BuildArguments,
    corpora_key: str,
    on_progress: ProgressFn,
    parts: PartBounds,
) -> Reading:
    """Corpus -> papers and their sentences, those that ``base`` has not, in parts on disk.

    Of papers whose changes are ``pending``, ``base`` does not show what the collection has become.
    """
    key = hashlib.sha256(json.dumps([corpora_key, sorted(pending)]).encode()).hexdigest()
    # Once its papers are in the catalog they are pending themselves, and the key would be another.
    added = read_note(work / CATALOGUED)
    reading = finished_reading(work, added["reading"] if added.get("corpora") == corpora_key else key)
    if reading is None:

        def on_part(n_done: int) -> None:
            on_progress("Reading", n_done, arguments.limit)

        unfinished = unfinished_reading(work, key)
        report = unfinished.report
        n_left = None if arguments.limit is None else arguments.limit - report.papers
        reading = read_into_parts(
            islice(_papers(corpora, arguments, report), n_left),
            unfinished,
            is_unchanged=lambda paper: paper.id not in pending and _stands_in(base, paper),
            on_part=on_part,
            bounds=parts,
        )
    on_progress("Reading", reading.n_papers, reading.n_papers)
    if not reading.parts and not reading.unchanged:
        refused = "; ".join(reading.refusals.examples[:3]) or "no row has an abstract"
        raise CorpusError(f"{', '.join(map(str, corpora))}: no usable paper ({refused})")
    return reading


def _stands_in(base: Snapshot | None, paper: Paper) -> bool:
    """Whether ``base`` holds a paper as it is given."""
    return base is not None and base.content_hash(paper.id) == content_hash(paper)


def _papers(corpora: Sequence[Path], arguments: BuildArguments, report: CorpusReport) -> Iterator[Paper]:
    read = partial(read_corpus, format_name=arguments.format_name, on_error=arguments.on_error, report=report)
    return chain.from_iterable(map(read, corpora))


def _corpora_key(corpora: Sequence[Path], base: Snapshot | None, arguments: BuildArguments) -> str:
    """What decides the outcome of reading but for pending changes; of a file its size and time of change."""
    stats = [path.stat() for path in corpora]
    files = [(str(path.resolve()), s.st_size, s.st_mtime_ns) for path, s in zip(corpora, stats, strict=True)]
    added_to = None if base is None else hashlib.sha256(base.manifest.to_json()).hexdigest()
    options = (arguments.format_name, arguments.on_error, arguments.limit)
    # Readers of another release may find other rows.
    decisive = (files, added_to, *options, SPLITTER_VERSION, version("akin"))
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()


def dtype_of(arguments: BuildArguments, encoder: EncoderSpec) -> str:
    """How vectors are stored: ``float16`` or ``float32``."""
    if arguments.dtype != "auto":
        return arguments.dtype
    return "float16" if encoder.normalised else "float32"
