"""``akin index`` and ``akin embed``: encode a corpus into a collection, or to standard output."""

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Group
from rich.text import Text

from akin.cli.collection.lookups import fetch as look_up_entries
from akin.cli.collection.lookups import first_of, refused_rows, retitled_papers
from akin.cli.consoles import stderr, stdout
from akin.cli.options import (
    CatalogUrl,
    CorpusFormat,
    Data,
    Device,
    EncoderName,
    FunctionsFile,
    Keep,
    NumberFormat,
    TaggerFile,
    chosen_precision,
)
from akin.cli.progress import show_progress
from akin.compiling import compile_in_background
from indexer.catalog.quarantine import QuarantinedPaper
from indexer.collection.build import BuildReport, build
from indexer.collection.growth import PUBLISH_EVERY, Bounds
from indexer.corpus.read import CorpusReport, expect_corpus, read_corpus
from indexer.encoding.arguments import BuildArguments, arguments_for, load_models
from indexer.encoding.on_cluster import EncodeOnCluster
from indexer.encoding.on_devices import encoding
from indexer.files.data_folder import KEEP
from indexer.files.file_system import limits_of
from indexer.index.vector_index import check_backend
from indexer.snapshot.folder import current_generation
from models.annotator import load_annotator
from models.counts import counted
from models.encoders.device_names import checked_device
from models.errors import InputError, SnapshotMissingError

# Enough papers for the encoder to sort by length, and few enough that the first lines are printed soon.
_PAPERS_EMBEDDED_AT_ONCE = 64
_SHOWN_IN_QUARANTINE = 10


class OnError(StrEnum):
    """The ways to handle a broken row of a corpus."""

    SKIP = "skip"
    FAIL = "fail"


class Dtype(StrEnum):
    """The number formats of stored vectors."""

    AUTO = "auto"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


def index(
    corpora: Annotated[list[Path], typer.Argument(help="Corpus files, plain or gzipped.")],
    data: Data,
    encoder: Annotated[
        str, typer.Option(help="A checkpoint's name or a model folder; default: the collection's, or minilm.")
    ] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this many papers.")] = None,
    backend: Annotated[
        str,
        typer.Option(
            help="auto (by size), exact, flat, hnsw, ivfpq, ivfsq; empty: the collection's, or auto."
        ),
    ] = "",
    device: Device = "auto",
    corpus_format: CorpusFormat = "auto",
    on_error: Annotated[
        OnError,
        typer.Option(metavar="<action>", help="Skip and report broken rows, or fail at the first."),
    ] = OnError.SKIP,
    precision: NumberFormat = None,
    dtype: Annotated[
        Dtype | None, typer.Option(help="How vectors are stored (the collection's, or auto).")
    ] = None,
    tagger: TaggerFile = None,
    functions: FunctionsFile = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Make CORPORA the whole collection, instead of adding to it.")
    ] = False,
    catalog: CatalogUrl = "",
    keep: Keep = KEEP,
    publish_every: Annotated[
        int,
        typer.Option(
            min=0, help="Publish after each N papers; 0: only once, at the end, as with --replace or --first."
        ),
    ] = PUBLISH_EVERY,
    first: Annotated[
        bool,
        typer.Option(
            "--first/--again", help="If the collection exists, do nothing (--first) or add to it (--again)."
        ),
    ] = False,
    fetch: Annotated[
        bool,
        typer.Option("--fetch", help="First look up missing abstracts at Crossref, arXiv and PubMed."),
    ] = False,
    contact: Annotated[str, typer.Option(help="Your e-mail address for those services (with --fetch).")] = "",
    ray: Annotated[
        str, typer.Option(help="Encode on a Ray cluster: its address, or local to use all processors here.")
    ] = "",
    per_gpu: Annotated[
        int, typer.Option(min=1, max=64, help="How many processes share a GPU (with --ray).")
    ] = 1,
) -> None:
    """Add new or changed papers from CORPORA to the collection in --data, or create it.

    Every sentence is embedded. A paper replaces the one with the same id. A running service picks up the
    changes. If the command is interrupted, run it again to resume.
    """
    if first and is_begun(data):
        note = "the collection exists, so nothing was indexed; leave out --first to add papers"
        stdout.print(f"{data}: {note}.", soft_wrap=True)
        return
    for limit_there in limits_of(data if data.exists() else data.absolute().parent).values():
        stderr.print(f"{data}: {limit_there}.", soft_wrap=True)
    own_device = _beside_cluster(device) if ray else device
    arguments = arguments_for(
        data,
        replace=replace,
        encoder=encoder,
        format_name=corpus_format,
        on_error=on_error.value,
        limit=limit,
        backend=backend,
        dtype=None if dtype is None else dtype.value,
        device=own_device,
        precision=chosen_precision(precision, own_device),
        tagger=absolute(tagger),
        functions=absolute(functions),
    )
    check_backend(arguments.backend, arguments.device)
    if per_gpu > 1 and not ray:
        raise InputError("--per-gpu starts processes with Ray; give --ray as well, such as --ray local.")
    for corpus in corpora:
        expect_corpus(corpus, corpus_format)
    compile_in_background()
    annotator = load_models(arguments)
    encode = _on_cluster(ray, arguments, device, per_gpu) if ray else encoding(annotator, arguments)
    with show_progress(stderr) as on_progress:
        if fetch:
            looked_up = look_up_entries(
                corpora, data, format_name=corpus_format, contact=contact, on_progress=on_progress
            )
            stderr.print(looked_up)
        report = build(
            corpora,
            data,
            annotator,
            arguments=arguments,
            on_progress=on_progress,
            catalog=catalog or None,
            replace=replace,
            keep=keep,
            # With --first, a partly published collection would count as complete at the next start.
            bounds=Bounds(publish_every=0 if first else publish_every),
            encode=encode,
        )
    stderr.print(refused_rows(report.staging.refusals, report.staging.unresolved))
    stderr.print(retitled_papers(report.staging))
    stderr.print(quarantined_papers(report.quarantined))
    if report.unmerged:
        stderr.print(f"Segments were not merged: {report.unmerged}.", style="yellow", soft_wrap=True)
    stdout.print(_build_summary(report))
    if not first:  # otherwise it is served next
        stdout.print(f"Serve it with: akin serve --data {data}", soft_wrap=True)


def _beside_cluster(device: str) -> str:
    """Return the device of this machine, which needs no GPU to have a cluster encode."""
    from models.encoders.devices import device_beside_cluster

    return device_beside_cluster(device)


def _on_cluster(address: str, arguments: BuildArguments, device: str, per_gpu: int) -> EncodeOnCluster:
    """Return an encoder on the cluster; each of its processes uses the GPU or processor assigned to it."""
    device = checked_device(device)
    # A process sees only its own GPU, as number 0.
    load = partial(load_models, arguments, device=device.partition(":")[0])
    return EncodeOnCluster(address, load, device=device, per_gpu=per_gpu)


def is_begun(data: Path) -> bool:
    """Return whether a data folder has a published generation."""
    try:
        current_generation(data)
    except SnapshotMissingError:
        return False
    return True


def absolute(path: Path | None) -> str | None:
    """Return the absolute path, which the service can open from any working directory."""
    return None if path is None else str(path.resolve())


def embed(
    corpus: Annotated[Path, typer.Argument(help="A corpus file in any known format.")],
    corpus_format: CorpusFormat = "auto",
    encoder: EncoderName = "minilm",
    device: Device = "auto",
) -> None:
    """Print a JSON line for each paper: its sentences, their facets and vectors, and its own vector."""
    expect_corpus(corpus, corpus_format)
    annotator = load_annotator(encoder, device=device)
    report = CorpusReport()
    papers = read_corpus(corpus, format_name=corpus_format, report=report)
    while batch := list(islice(papers, _PAPERS_EMBEDDED_AT_ONCE)):
        for annotated in annotator.annotate(batch):
            encoded, own = annotated.encoded, annotated.paper.sentences
            line = {
                "id": annotated.paper.id,
                "sentences": [sentence.text for sentence in own],
                "facets": [sentence.facet for sentence in own],
                "vectors": encoded.sentences,
                "document": encoded.document,
                "dropped_sentences": encoded.dropped_sentences,
            }
            typer.echo(orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY))
    stderr.print(refused_rows(report), soft_wrap=True)


def quarantined_papers(papers: Sequence[QuarantinedPaper]) -> Group:
    """Render how many papers could not be encoded, and the first of them with the reasons."""
    lines = []
    if papers:
        lines.append(
            Text(
                counted(
                    len(papers),
                    "paper could not be encoded and is in quarantine; correct or delete it:",
                    "papers could not be encoded and are in quarantine; correct or delete them:",
                ),
                style="yellow",
            )
        )
        lines += first_of(
            len(papers), [f"{paper.paper_id}: {paper.reason}" for paper in papers[:_SHOWN_IN_QUARANTINE]]
        )
    return Group(*lines)


def _build_summary(report: BuildReport) -> Group:
    """Render what was indexed, replaced, unchanged and reused, and what is not searched or not English."""
    manifest, staging = report.manifest, report.staging
    backends = ", ".join(dict.fromkeys(segment.backend for segment in manifest.segments))
    lines = [
        Text.assemble(
            "Indexed ",
            (counted(staging.n_papers - len(report.quarantined), "paper"), "bold"),
            f" in {report.took_s:,.1f} s; generation {manifest.generation} holds {manifest.n_papers:,}, with "
            f"{counted(manifest.n_rows, f'{manifest.encoder.unit} vector')} "
            f"(encoder {manifest.encoder.name}, backend {backends}).",
        )
    ]
    if report.replaced:
        lines.append(Text(f"{report.replaced:,} of them replaced papers with the same id."))
    if staging.unchanged:
        unchanged = counted(staging.unchanged, "paper was", "papers were")
        lines.append(Text(f"{unchanged} already there, unchanged."))
    if report.reused_papers:
        reused = counted(report.reused_papers, "paper")
        lines.append(Text(f"{reused} had been encoded before and did not need to be encoded again."))
    if report.dropped_sentences:
        dropped = counted(report.dropped_sentences, "sentence")
        lines.append(Text(f"Stored but not searched: {dropped} past the encoder's token limit."))
    languages = report.staging.languages
    if languages:
        named = ", ".join(f"{code} {count:,}" for code, count in languages.items())
        foreign = counted(sum(languages.values()), "abstract does", "abstracts do")
        lines.append(
            Text(
                f"{foreign} not look English ({named}); an English encoder matches them less well.",
                style="yellow",
            )
        )
    return Group(*lines)
