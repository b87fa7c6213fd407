"""The pipeline: corpus -> papers -> sentences -> sentence vectors and facets -> snapshot.

Everything unfinished lives in ``DATA/building``. A build that was killed while encoding, which is nearly all
of its time, finds its finished parts there and repeats at most the one it was in; one that was killed while
reading reads again.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from indexer.catalog import CATALOG_FILE, Catalog
from indexer.corpus import CorpusReport, read_corpus
from indexer.durable import discard_folder, storage_errors, writer_lock
from indexer.index import check_backend
from indexer.manifest import Manifest
from indexer.parts import EncodedPart, Reading, encode_part, finished_reading, read_into_parts
from indexer.segment import write_segment
from indexer.snapshot import next_generation, publish
from models.annotator import Annotator
from models.errors import CorpusError
from models.sentences import SPLITTER_VERSION
from models.types import EncoderSpec, Paper, Precision, ProgressFn, Unit

_SEGMENT = "segment-000"


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


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did. ``reused_papers`` were encoded before an interruption; ``took_s`` is wall time."""

    manifest: Manifest
    reading: Reading
    dropped_sentences: int
    reused_papers: int
    took_s: float


def build(
    corpora: Sequence[Path],
    data: Path,
    annotator: Annotator,
    *,
    arguments: BuildArguments,
    on_progress: ProgressFn,
) -> BuildReport:
    """Index ``corpora`` into a new generation of ``data`` and let it be served.

    Raises CorpusError, EncoderError, StorageError, BuildLockedError; what was served before stays served.
    """
    started = time.perf_counter()
    check_backend(arguments.backend, arguments.device)
    with storage_errors(data):
        data.mkdir(parents=True, exist_ok=True)
        with writer_lock(data):
            work = data / "building"
            work.mkdir(exist_ok=True)
            reading = _read(corpora, data, work, arguments, on_progress)
            encoded = _encode(reading, work, annotator, arguments, on_progress)
            manifest = _publish(reading, encoded, data, annotator, arguments, on_progress)
            discard_folder(work)
    n_sentences = sum(part.n_sentences for part in reading.parts)
    return BuildReport(
        manifest=manifest,
        reading=reading,
        dropped_sentences=n_sentences - manifest.n_rows if manifest.encoder.unit is Unit.SENTENCE else 0,
        reused_papers=sum(
            part.n_papers for part, done in zip(reading.parts, encoded, strict=True) if done.reused
        ),
        took_s=time.perf_counter() - started,
    )


def _read(
    corpora: Sequence[Path], data: Path, work: Path, arguments: BuildArguments, on_progress: ProgressFn
) -> Reading:
    """Corpus -> papers and their sentences, in parts on disk and in the catalog."""
    key = _reading_key(corpora, arguments)
    reading = finished_reading(work, key)
    if reading is None:
        with Catalog.open(data / CATALOG_FILE) as catalog:
            done = 0

            def on_part(papers: Sequence[Paper]) -> None:
                nonlocal done
                catalog.add(papers)
                done += len(papers)
                on_progress("Reading", done, arguments.limit)

            report = CorpusReport()
            papers = islice(_papers(corpora, arguments, report), arguments.limit)
            reading = read_into_parts(papers, work, key=key, report=report, on_part=on_part)
    on_progress("Reading", reading.n_papers, reading.n_papers)
    if not reading.parts:
        refused = "; ".join(reading.refusals.examples[:3]) or "no row has an abstract"
        raise CorpusError(f"{', '.join(map(str, corpora))}: no usable paper ({refused})")
    return reading


def _papers(corpora: Sequence[Path], arguments: BuildArguments, report: CorpusReport) -> Iterator[Paper]:
    read = partial(read_corpus, format_name=arguments.format_name, on_error=arguments.on_error, report=report)
    return chain.from_iterable(map(read, corpora))


def _reading_key(corpora: Sequence[Path], arguments: BuildArguments) -> str:
    """What decides the outcome of reading; a file counts as unchanged by its size and time of change."""
    stats = [path.stat() for path in corpora]
    files = [(str(path.resolve()), s.st_size, s.st_mtime_ns) for path, s in zip(corpora, stats, strict=True)]
    decisive = (files, arguments.format_name, arguments.on_error, arguments.limit, SPLITTER_VERSION)
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()


def _encode(
    reading: Reading, work: Path, annotator: Annotator, arguments: BuildArguments, on_progress: ProgressFn
) -> list[EncodedPart]:
    """Sentences -> sentence vectors and facets, part by part."""
    dtype, precision = _dtype(arguments, annotator.encoder.spec), arguments.precision
    done = 0

    def advance(n_papers: int) -> None:
        nonlocal done
        done += n_papers
        on_progress("Encoding", done, reading.n_papers)

    return [
        encode_part(work, part, annotator, dtype=dtype, precision=precision, on_progress=advance)
        for part in reading.parts
    ]


def _dtype(arguments: BuildArguments, encoder: EncoderSpec) -> str:
    if arguments.dtype != "auto":
        return arguments.dtype
    return "float16" if encoder.normalised else "float32"


def _publish(
    reading: Reading,
    parts: Sequence[EncodedPart],
    data: Path,
    annotator: Annotator,
    arguments: BuildArguments,
    on_progress: ProgressFn,
) -> Manifest:
    """Sentence vectors and facets -> snapshot, served from here on."""
    prepared = data / "building" / "snapshot"
    shutil.rmtree(prepared, ignore_errors=True)
    (prepared / _SEGMENT).mkdir(parents=True)
    on_progress("Indexing", 0, reading.n_papers)
    segment = write_segment(prepared / _SEGMENT, parts, backend=arguments.backend, device=arguments.device)
    encoder = annotator.encoder.spec
    manifest = Manifest(
        generation=next_generation(data),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        encoder=encoder,
        tagger=annotator.tagger.spec,
        functions=annotator.function_spec,
        dtype=_dtype(arguments, encoder),
        metric="L2",
        splitter=SPLITTER_VERSION,
        segments=(segment,),
        arguments=asdict(arguments),
    )
    publish(prepared, data, manifest)
    on_progress("Indexing", reading.n_papers, reading.n_papers)
    return manifest
