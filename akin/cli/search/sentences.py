"""``akin sentences``: the nearest sentences of a collection."""

from typing import Annotated, Literal, cast

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from akin.cli.consoles import stdout
from akin.cli.options import (
    Authors,
    Device,
    Fields,
    HasFacets,
    Key,
    MaybeData,
    Url,
    Venues,
    YearFrom,
    YearTo,
    filters_of,
)
from akin.cli.output import as_json as json_line
from akin.cli.output import print_data
from akin.cli.render import notes
from akin.cli.search.query import given, open_client
from akin.cli.search.unresolved import naming_lost
from akin.client.params import SentenceRequest
from akin.client.responses.sentences import SentenceAnswer
from models.counts import counted
from models.errors import InputError
from models.types import Facet


def sentences(
    text: Annotated[str | None, typer.Argument(help="The sentence to start from.")] = None,
    data: MaybeData = None,
    url: Url = "",
    key: Key = None,
    paper: Annotated[str | None, typer.Option(help="Or the id of an indexed paper, with --sentence.")] = None,
    sentence: Annotated[int | None, typer.Option(min=0, help="The number of its sentence.")] = None,
    by: Annotated[
        Literal["meaning", "function"],
        typer.Option(metavar="<likeness>", help="Compare by meaning, or by rhetorical function."),
    ] = "meaning",
    facet: Annotated[
        list[Facet] | None, typer.Option(help="Only sentences of this facet; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Number of sentences.")] = 10,
    year_from: YearFrom = None,
    year_to: YearTo = None,
    author: Authors = None,
    venue: Venues = None,
    field: Fields = None,
    has_facet: HasFacets = None,
    device: Device = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the JSON response of /v1/sentences/search.")
    ] = False,
) -> None:
    """Find sentences with the same meaning as one, or with the same rhetorical function.

    Searches the collection in --data, or sends the query to the running service at --url, which is faster.
    """
    if (text is None) == (paper is None or sentence is None) or (text is not None and paper is not None):
        raise InputError("Name the sentence once: give it as TEXT, or as --paper ID --sentence N.")
    request = cast(
        SentenceRequest,
        {
            **({"paper_id": paper, "sentence": sentence} if text is None else {"text": text}),
            **given(
                facet=[each.value for each in facet or ()],
                filters=filters_of(year_from, year_to, author, venue, field, has_facet),
            ),
            "by": by,
            "limit": limit,
        },
    )
    with (
        open_client(url, data, key=key, device=device) as collection,
        naming_lost(collection, {} if paper is None else {"paper_id": paper}),
    ):
        answer = collection.search_sentences(**request)
    if as_json:
        print_data(json_line(answer))
    else:
        stdout.print(found_sentences(answer))


def found_sentences(answer: SentenceAnswer) -> Group:
    """Render the query's sentence, then a table of the sentences found, nearest first."""
    query = answer.query
    heading = Text.assemble((f"Nearest by {query.by}: ", "bold"), (query.text, "bold blue"))
    if query.paper_id:
        heading.append(f"  ({query.paper_id}, sentence {query.sentence})", style="dim")
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
    shown: list[Text | Table] = [heading, Text(), table]
    if answer.detail:
        shown = [heading, Text(answer.detail, style="yellow")]
    n_found = counted(len(answer.results), "result")
    took = f"{n_found} in {answer.took_ms:,.0f} ms, generation {answer.generation}"
    return Group(*shown, *notes(answer.warnings), Text(took))
