"""``akin search``: one query paper in, ranked and explained papers out."""

from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console

from akin.asking import Authors, Fields, HasFacets, Venues, YearFrom, YearTo, read_aspect, read_query
from akin.display import search_answer
from akin.indexing import Data, Device
from akin.serving import settings_of
from models.transport import Scorer
from models.types import Facet, Filters
from service.api.schemas.search import SearchOut
from service.collection.generations import open_engine
from service.search.aspect import DEFAULT_CONTRAST
from service.search.query import SearchQuery
from service.search.rerank import MAX_SPECIFICITY
from service.search.words import MAX_WEIGHT

_out = Console(highlight=False)


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
    words: Annotated[
        float | None, typer.Option(min=0, max=MAX_WEIGHT, help="What shared words weigh; 0: nothing.")
    ] = None,
    specificity: Annotated[
        float | None,
        typer.Option(
            min=0, max=MAX_SPECIFICITY, help="How much more specific sentences count; 0: all alike."
        ),
    ] = None,
    year_from: YearFrom = None,
    year_to: YearTo = None,
    author: Authors = None,
    venue: Venues = None,
    field: Fields = None,
    has_facet: HasFacets = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the body of /v1/search.")] = False,
) -> None:
    """Papers akin to one paper, or to a short text, with the sentences that match marked."""
    seed = read_query(paper_id=paper, sources=(source, abstract), text=text)
    aspect = read_aspect(sentences, facet, focus, unlike=(unlike_sentences, unlike), weight=unlike_weight)
    query = SearchQuery(
        (replace(seed, aspect=aspect),),
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
        words=words,
        specificity=specificity,
        limit=limit,
    )
    answer = open_engine(settings_of(data=data, device=device)).search(query)
    if as_json:
        typer.echo(SearchOut.of(answer).model_dump_json())
    else:
        _out.print(search_answer(answer))
