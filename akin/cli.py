"""The command line: ``akin index``, ``serve``, ``search``, ``sentences``, ``analyze`` and the others."""

from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from typer.core import TyperGroup

from akin import collection, evaluate, keys, mcp, sentences, train, worker
from akin.asking import read_aspect, read_query
from akin.display import search_answer
from akin.indexing import Data, Device, embed, index
from akin.reindexing import reindex
from akin.serving import serve_until_stopped, settings_of
from indexer.generations import current_generation
from models.errors import AkinError, SnapshotMissingError
from models.transport import Scorer
from models.types import Facet, Filters
from service.aspect import DEFAULT_CONTRAST
from service.engines import open_engine
from service.schemas.search import SearchOut
from service.search import SearchQuery
from service.telemetry import configure_logging

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
                "Interrupted. What was published before stays served; the same command goes on where it was."
            )
            raise typer.Exit(130) from interrupt


app = typer.Typer(
    cls=_Commands,
    help="Find scientific papers akin to one you give, in the respect you choose.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(collection.snapshots, name="snapshot")
app.add_typer(keys.app, name="keys")
app.add_typer(evaluate.app, name="evaluate")
app.add_typer(train.app, name="train")
app.command()(index)
app.command()(collection.delete)
app.command()(collection.compact)
app.command()(reindex)
app.command()(collection.backup)
app.command()(embed)
app.command()(sentences.sentences)
app.command()(sentences.analyze)
app.command()(mcp.mcp)
app.command()(worker.worker)


Port = Annotated[int, typer.Option(min=0, max=65535)]


@app.command()
def serve(
    data: Data,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Default: the one the snapshot was built with.")] = None,
    device: Annotated[Literal["auto", "cpu", "cuda"] | None, typer.Option(help="auto, cpu or cuda.")] = None,
) -> None:
    """Serve the current generation of --data over HTTP; AKIN_* variables set what is not given."""
    serve_until_stopped(settings_of(data=data, host=host, port=port, encoder=encoder, device=device), _out)


@app.command()
def search(
    data: Data,
    source: Annotated[str, typer.Argument(help="`-` reads the query paper from standard input.")] = "",
    paper: Annotated[str, typer.Option(help="The id of an indexed paper.")] = "",
    abstract: Annotated[
        str, typer.Option(help="A file: title, empty line, abstract; or one JSON paper.")
    ] = "",
    text: Annotated[str, typer.Option(help="A claim or a few words, up to 2,000 characters.")] = "",
    sentences: Annotated[str, typer.Option(help="Numbers of the sentences that count: 0,3")] = "",
    facet: Annotated[
        list[Facet] | None, typer.Option(help="Count the sentences of this facet; may be repeated.")
    ] = None,
    unlike: Annotated[
        list[Facet] | None, typer.Option(help="Prefer papers far from this facet of it; may be repeated.")
    ] = None,
    unlike_sentences: Annotated[str, typer.Option(help="The same for sentences, by number.")] = "",
    unlike_weight: Annotated[
        float | None,
        typer.Option(min=1e-3, max=1, help="How much being far counts.", show_default=str(DEFAULT_CONTRAST)),
    ] = None,
    focus: Annotated[
        float | None, typer.Option(min=0, max=1, help="How far chosen sentences turn away from the rest.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many papers.")] = 10,
    scorer: Annotated[Scorer, typer.Option(help="How a paper is scored.")] = Scorer.OT,
    tau: Annotated[float | None, typer.Option(min=1e-3, max=1e6, help="Marginals' temperature.")] = None,
    year_from: Annotated[int | None, typer.Option(min=1000, max=2100, help="Earliest year.")] = None,
    year_to: Annotated[int | None, typer.Option(min=1000, max=2100, help="Latest year.")] = None,
    author: Annotated[list[str] | None, typer.Option(help="Only by this author; may be repeated.")] = None,
    venue: Annotated[list[str] | None, typer.Option(help="Only this venue; may be repeated.")] = None,
    field: Annotated[list[str] | None, typer.Option(help="Only this field; may be repeated.")] = None,
    has_facet: Annotated[
        list[Facet] | None, typer.Option(help="Only papers with a sentence of this facet; may be repeated.")
    ] = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the body of /v1/search.")] = False,
) -> None:
    """Papers akin to one paper, or to a short text, with the sentences that match marked."""
    query = read_query(paper_id=paper, sources=(source, abstract), text=text)
    aspect = read_aspect(sentences, facet, focus, unlike=(unlike_sentences, unlike), weight=unlike_weight)
    chosen = SearchQuery(
        paper_id=query.paper_id,
        paper=query.paper,
        text=query.text,
        aspect=aspect,
        filters=Filters(
            year_from,
            year_to,
            tuple(venue or ()),
            tuple(field or ()),
            has_facets=tuple(has_facet or ()),
            authors=tuple(author or ()),
        ),
        scorer=scorer,
        tau=tau,
        limit=limit,
    )
    answer = open_engine(settings_of(data=data, device=device)).search(chosen)
    if as_json:
        typer.echo(SearchOut.of(answer).model_dump_json())
    else:
        _out.print(search_answer(answer))


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
    serve_until_stopped(settings_of(data=data, port=port), _out, hint=_demo_hint(port))


def _demo_hint(port: int) -> str:
    query = '{"query": {"paper_id": "demo:p03-m07"}, "facet": "method", "limit": 3}'
    return (
        "Ask which papers use the method of one, whatever their problem:\n"
        f"curl -s http://127.0.0.1:{port}/v1/search -H 'Content-Type: application/json' -d '{query}'"
    )
