"""``akin sentences`` and ``akin analyze``: the nearest sentences of a collection; what each sentence does."""

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Group
from rich.table import Table
from rich.text import Text

from akin.asking import read_query
from akin.consoles import stdout
from akin.display import notes
from akin.local import seed_of
from akin.options import Authors, Device, Fields, HasFacets, Venues, YearFrom, YearTo, filters_of
from akin.serving import settings_of
from models.annotator import load_annotator
from models.errors import InputError
from models.types import Facet
from service.api.schemas.base import where
from service.api.schemas.sentences import AnalyzedSentenceOut, AnalyzeOut, SentenceSearchIn, SentenceSearchOut
from service.collection.generations import open_engine
from service.resolve.analysis import analyze as analyze_paper
from service.search.sentences import Likeness, SentenceQuery, search_sentences


def sentences(
    data: Annotated[Path, typer.Option(help="The data folder.", file_okay=False)],
    text: Annotated[str | None, typer.Argument(help="The sentence to start from.")] = None,
    paper: Annotated[str | None, typer.Option(help="Or the id of an indexed paper, with --sentence.")] = None,
    sentence: Annotated[int | None, typer.Option(min=0, help="The number of its sentence.")] = None,
    by: Annotated[
        Likeness, typer.Option(help="Near in what it is about, or in what it does.")
    ] = Likeness.MEANING,
    facet: Annotated[
        list[Facet] | None, typer.Option(help="Only sentences of this facet; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many sentences.")] = 10,
    year_from: YearFrom = None,
    year_to: YearTo = None,
    author: Authors = None,
    venue: Venues = None,
    field: Fields = None,
    has_facet: HasFacets = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the body of /v1/sentences/search.")] = False,
) -> None:
    """The sentences nearest to one, by what they are about or by what they do, whatever their topic."""
    given = {"text": text, "paper_id": paper, "sentence": sentence}
    query = _query(
        query={name: value for name, value in given.items() if value is not None},
        by=by,
        facet=facet,
        filters=filters_of(year_from, year_to, author, venue, field, has_facet),
        limit=limit,
    )
    answer = search_sentences(open_engine(settings_of(data=data, device=device)), query)
    body = SentenceSearchOut.of(answer)
    if as_json:
        typer.echo(body.model_dump_json())
    else:
        stdout.print(found_sentences(body))


def _query(**body: Any) -> SentenceQuery:
    """The query, held to what the service takes; raises InputError."""
    try:
        return SentenceSearchIn.model_validate(body).to_query()
    except ValidationError as error:
        first = error.errors()[0]
        reason = first["msg"].removeprefix("Value error, ")
        raise InputError(
            f"{where(first['loc'])}: {reason}. Give a sentence as TEXT, or as --paper ID --sentence N."
        ) from error


def found_sentences(answer: SentenceSearchOut) -> Group:
    """The sentence asked for, then a table of those found, nearest first."""
    query = answer.query
    asked = Text.assemble((f"Near by {query.by}: ", "bold"), (query.text, "bold blue"))
    if query.paper_id:
        asked.append(f"  ({query.paper_id}, sentence {query.sentence})", style="dim")
    table = Table("distance", "facet", "sentence", "paper", box=None, padding=(0, 2, 1, 0))
    for found in answer.results:
        about = " · ".join(
            part
            for part in (f"{found.paper.id}, sentence {found.sentence}", str(found.paper.year or ""))
            if part
        )
        table.add_row(
            Text(f"{found.distance:.4f}", style="cyan"),
            Text(found.facet or "", style="green"),
            Text(found.text),
            Text.assemble((found.paper.title, "blue"), (f"\n{about}", "dim")),
        )
    shown: list[Text | Table] = [asked, Text(), table]
    if answer.detail:
        shown = [asked, Text(answer.detail, style="yellow")]
    took = f"{len(answer.results)} results in {answer.took_ms:,.0f} ms, generation {answer.generation}"
    return Group(*shown, *notes(answer.warnings), Text(took))


def analyze(
    source: Annotated[
        str,
        typer.Argument(help="A file: title, empty line, abstract; or one JSON paper; `-`: standard input."),
    ],
    encoder: Annotated[
        str, typer.Option(help="A checkpoint's name, `hashing`, or a model folder.")
    ] = "minilm",
    tagger: Annotated[
        Path | None,
        typer.Option(help="Facet weights, in place of the encoder's own.", exists=True, dir_okay=False),
    ] = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the body of /v1/analyze.")] = False,
) -> None:
    """The sentences of an abstract and what each does; nothing needs to be indexed."""
    paper = seed_of(read_query(paper_id="", sources=(source,))).paper
    if paper is None:
        raise InputError("Name a file with a title and an abstract, or - for standard input.")
    body = AnalyzeOut.of(analyze_paper(load_annotator(encoder, device=device, tagger=tagger), paper))
    if as_json:
        typer.echo(body.model_dump_json())
    else:
        stdout.print(analyzed_sentences(body))


def analyzed_sentences(analysis: AnalyzeOut) -> Group:
    """Each sentence with its facet and how probable that is."""
    table = Table("", "facet", "", "sentence", box=None, padding=(0, 2, 0, 0))
    for number, sentence in enumerate(analysis.sentences):
        table.add_row(
            str(number), Text(sentence.facet or "", style="green"), _share(sentence), Text(sentence.text)
        )
    shown: list[Text | Table] = [table]
    if analysis.dropped_sentences:
        shown.append(
            Text(f"The encoder did not read the last {analysis.dropped_sentences} sentences.", style="yellow")
        )
    return Group(*shown, *notes(analysis.warnings), Text(f"Facets by the tagger {analysis.tagger}."))


def _share(sentence: AnalyzedSentenceOut) -> str:
    return "" if sentence.facet is None else f"{sentence.probabilities[sentence.facet]:.0%}"
