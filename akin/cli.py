"""The command line: ``akin index``, ``serve``, ``search``, ``embed``, ``convert``, ``snapshot``, ``demo``."""

from enum import StrEnum
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
import typer
from pydantic import ValidationError
from rich.console import Console
from typer.core import TyperGroup

from akin import evaluate
from akin.asking import read_query, sentence_numbers
from akin.display import build_summary, generation_table, refused_rows, search_answer
from akin.progress import show_progress
from akin.serving import serve_until_stopped
from indexer.build import BuildArguments, build
from indexer.corpus import CorpusReport, read_corpus
from indexer.manifest import Manifest
from indexer.snapshot import current_generation, generations, read_manifest, rollback, verify
from models.encoder import load_encoder
from models.errors import AkinError, InputError, SnapshotError, SnapshotMissingError
from models.transport import Scorer
from models.types import Facet, Filters, Precision
from service.aspect import Aspect
from service.schemas.search import SearchOut
from service.search import SearchQuery, open_engine
from service.settings import Settings
from service.telemetry import configure_logging

# Enough for the encoder to sort by length, few enough that the first lines come soon.
_PAPERS_EMBEDDED_AT_ONCE = 64
_out = Console(highlight=False)
_err = Console(stderr=True, highlight=False)


class _Commands(TyperGroup):
    """Turns every expected failure into one clear line and exit status 1."""

    def invoke(self, ctx: Any) -> Any:
        configure_logging("warning")
        try:
            return super().invoke(ctx)
        except AkinError as error:
            _err.print("error:", style="bold red", end=" ")
            _err.print(str(error), markup=False, soft_wrap=True)
            raise typer.Exit(1) from error
        except KeyboardInterrupt as interrupt:
            _err.print(
                "Interrupted. What was published before stays served; `akin index` goes on where it was."
            )
            raise typer.Exit(130) from interrupt


app = typer.Typer(
    cls=_Commands,
    help="Find scientific papers akin to one you give, in the respect you choose.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
snapshots = typer.Typer(help="The published generations of a data folder.", no_args_is_help=True)
app.add_typer(snapshots, name="snapshot")
app.add_typer(evaluate.app, name="evaluate")


class OnError(StrEnum):
    """What a broken row of a corpus does."""

    SKIP = "skip"
    FAIL = "fail"


class Dtype(StrEnum):
    """How vectors are stored."""

    AUTO = "auto"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


Data = Annotated[Path, typer.Option(help="The data folder.", file_okay=False)]
CorpusFormat = Annotated[str, typer.Option("--format", help="Corpus format; auto finds it by looking.")]
EncoderName = Annotated[str, typer.Option(help="A checkpoint's name, `hashing`, or a model folder.")]
Device = Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="auto: CUDA if there is one, else CPU.")]
Port = Annotated[int, typer.Option(min=0, max=65535)]


@app.command()
def index(
    corpora: Annotated[list[Path], typer.Argument(help="Corpus files, plain or gzipped.")],
    data: Data,
    encoder: EncoderName = "minilm",
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this many papers.")] = None,
    backend: Annotated[str, typer.Option(help="auto (by size), exact, flat, hnsw or ivfpq.")] = "auto",
    device: Device = "auto",
    corpus_format: CorpusFormat = "auto",
    on_error: Annotated[
        OnError, typer.Option(help="Skip and report broken rows, or fail at the first.")
    ] = OnError.SKIP,
    precision: Annotated[Precision, typer.Option(help="Number format of the encoder.")] = Precision.FLOAT32,
    dtype: Annotated[Dtype, typer.Option(help="How vectors are stored.")] = Dtype.AUTO,
) -> None:
    """Embed every sentence of CORPORA and publish them as a new generation of --data.

    An interrupted run goes on where it stopped when the same command is given again.
    """
    arguments = BuildArguments(
        encoder=encoder,
        format_name=corpus_format,
        on_error=on_error.value,
        limit=limit,
        backend=backend,
        dtype=dtype.value,
        device=device,
        precision=precision,
    )
    loaded = load_encoder(encoder, device=device, precision=precision)
    with show_progress(_err) as on_progress:
        report = build(corpora, data, loaded, arguments=arguments, on_progress=on_progress)
    _err.print(refused_rows(report.reading.refusals))
    _out.print(build_summary(report))
    _out.print(f"Serve it with: akin serve --data {data}", markup=False, soft_wrap=True)


@app.command()
def serve(
    data: Data,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Default: the one the snapshot was built with.")] = None,
    device: Annotated[Literal["auto", "cpu", "cuda"] | None, typer.Option(help="auto, cpu or cuda.")] = None,
) -> None:
    """Serve the current generation of --data over HTTP; AKIN_* variables set what is not given."""
    serve_until_stopped(_settings(data=data, host=host, port=port, encoder=encoder, device=device), _out)


def _settings(**given: Any) -> Settings:
    """The settings of the environment, but for what is given and not ``None``."""
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"Setting AKIN_{str(first['loc'][0]).upper()}: {first['msg']}.") from error


@app.command()
def search(
    data: Data,
    source: Annotated[str, typer.Argument(help="`-` reads the query paper from standard input.")] = "",
    paper: Annotated[str, typer.Option(help="The id of an indexed paper.")] = "",
    abstract: Annotated[
        str, typer.Option(help="A file: title, empty line, abstract; or one JSON paper.")
    ] = "",
    sentences: Annotated[str, typer.Option(help="Numbers of the sentences that count: 0,3")] = "",
    facet: Annotated[Facet | None, typer.Option(help="Count the sentences of this facet.")] = None,
    focus: Annotated[
        float | None, typer.Option(min=0, max=1, help="How far chosen sentences turn away from the rest.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many papers.")] = 10,
    scorer: Annotated[Scorer, typer.Option(help="How a paper is scored.")] = Scorer.OT,
    tau: Annotated[float | None, typer.Option(min=1e-3, max=1e6, help="Marginals' temperature.")] = None,
    year_from: Annotated[int | None, typer.Option(min=1000, max=2100, help="Earliest year.")] = None,
    year_to: Annotated[int | None, typer.Option(min=1000, max=2100, help="Latest year.")] = None,
    venue: Annotated[list[str] | None, typer.Option(help="Only this venue; may be repeated.")] = None,
    field: Annotated[list[str] | None, typer.Option(help="Only this field; may be repeated.")] = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the body of /v1/search.")] = False,
) -> None:
    """Papers akin to one paper, with the sentences that match marked."""
    query = read_query(paper_id=paper, sources=(source, abstract))
    if sentences and facet:
        raise InputError("Choose sentences or a facet, not both.")
    chosen = SearchQuery(
        paper_id=query.paper_id,
        paper=query.paper,
        aspect=Aspect(sentence_numbers(sentences), facet, focus),
        filters=Filters(year_from, year_to, tuple(venue or ()), tuple(field or ())),
        scorer=scorer,
        tau=tau,
        limit=limit,
    )
    answer = open_engine(_settings(data=data, device=device)).search(chosen)
    if as_json:
        typer.echo(SearchOut.of(answer).model_dump_json())
    else:
        _out.print(search_answer(answer))


@app.command()
def embed(
    corpus: Annotated[Path, typer.Argument(help="A corpus file in any known format.")],
    corpus_format: CorpusFormat = "auto",
    encoder: EncoderName = "minilm",
    device: Device = "auto",
) -> None:
    """Print one JSON line a paper: sentences, their vectors, the document's, and how many were dropped."""
    loaded = load_encoder(encoder, device=device)
    report = CorpusReport()
    papers = read_corpus(corpus, format_name=corpus_format, report=report)
    while batch := list(islice(papers, _PAPERS_EMBEDDED_AT_ONCE)):
        for paper, encoded in zip(batch, loaded.encode(batch), strict=True):
            line = {
                "id": paper.id,
                "sentences": [sentence.text for sentence in paper.sentences],
                "vectors": encoded.sentences,
                "document": encoded.document,
                "dropped_sentences": encoded.dropped_sentences,
            }
            typer.echo(orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY))
    for row in report.broken_rows:
        _err.print(f"skipped: {row}", markup=False, soft_wrap=True)


@app.command()
def convert(
    source: Annotated[
        Path, typer.Argument(help="A folder with pytorch_model.bin.", exists=True, file_okay=False)
    ],
    target: Annotated[Path, typer.Argument(help="The folder to write.", file_okay=False)],
    like: Annotated[str, typer.Option(help="Pool as this named checkpoint does, e.g. specter.")] = "",
) -> None:
    """Convert a checkpoint to safetensors, the only format Akin loads."""
    # Only here is torch needed, and it takes seconds to import.
    from models.conversion import convert_checkpoint  # noqa: PLC0415

    done = convert_checkpoint(source, target, like=like or None)
    _out.print(
        f"Converted {done.n_tensors} tensors. Use it with: --encoder {target}", markup=False, soft_wrap=True
    )


@app.command()
def demo(data: Data = Path(".demo"), port: Port = 8000) -> None:
    """Index the demo corpus (invented papers) unless it is there already, then serve it."""
    try:
        current_generation(data)
    except SnapshotMissingError:
        with resources.as_file(resources.files("akin") / "demo" / "papers.jsonl") as corpus:
            index([corpus], data)
    serve_until_stopped(_settings(data=data, port=port), _out, hint=_demo_hint(port))


def _demo_hint(port: int) -> str:
    query = '{"query": {"paper_id": "demo:p03-m07"}, "facet": "method", "limit": 3}'
    return (
        "Ask which papers use the method of one, whatever their problem:\n"
        f"curl -s http://127.0.0.1:{port}/v1/search -H 'Content-Type: application/json' -d '{query}'"
    )


@snapshots.command("list")
def list_snapshots(data: Data) -> None:
    """Every published generation; the served one is marked."""
    found: list[tuple[str, Manifest | SnapshotError]] = []
    for name in generations(data):
        try:
            found.append((name, read_manifest(data, name)))
        except SnapshotError as error:
            found.append((name, error))
    try:
        served = current_generation(data)
    except SnapshotMissingError as error:
        served = ""
        _err.print(str(error), markup=False, soft_wrap=True, style="yellow")
    _out.print(generation_table(found, served))


@snapshots.command("verify")
def verify_snapshot(
    data: Data,
    generation: Annotated[str, typer.Option(help="Which one; empty: the served one.")] = "",
) -> None:
    """Compare every file of a generation with its checksum."""
    manifest = verify(data, generation or current_generation(data))
    n_files = sum(len(segment.files) for segment in manifest.segments)
    _out.print(f"Generation {manifest.generation}: {n_files} files, all as the manifest says.")


@snapshots.command("rollback")
def rollback_snapshot(
    data: Data,
    to: Annotated[str, typer.Option(help="Which generation; empty: the one before the served one.")] = "",
) -> None:
    """Serve an earlier generation again; a running service takes it up when it is restarted."""
    manifest = rollback(data, to or None)
    _out.print(f"Generation {manifest.generation} is served from now on; restart the service to take it up.")
