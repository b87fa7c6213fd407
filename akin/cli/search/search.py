"""``akin search``: papers similar to one paper or a text."""

import shlex
from typing import Annotated, cast

import typer

from akin.cli.options import (
    AsJson,
    Authors,
    Device,
    Fields,
    HasFacets,
    Key,
    Limit,
    MaybeData,
    Output,
    OutputFormat,
    Save,
    Specificity,
    Url,
    Venues,
    Words,
    YearFrom,
    YearTo,
    filters_of,
    form_of,
)
from akin.cli.output import print_answer
from akin.cli.search.query import (
    expect_name,
    given,
    is_file,
    lasting,
    open_client,
    read_aspect,
    read_query,
    saving,
    to_save,
)
from akin.cli.search.unresolved import naming_lost
from akin.client.params import ScorerName, SearchRequest
from models.errors import InputError
from models.types import Facet


def search(
    source: Annotated[str, typer.Argument(help="A file, as with --abstract; `-` reads standard input.")] = "",
    data: MaybeData = None,
    url: Url = "",
    key: Key = None,
    paper: Annotated[str, typer.Option(help="Id, DOI or title of an indexed paper.")] = "",
    abstract: Annotated[
        str, typer.Option(help="A file: title, empty line, abstract; or one JSON paper.")
    ] = "",
    text: Annotated[str, typer.Option(help="A claim or a few words, up to 2,000 characters.")] = "",
    sentences: Annotated[str, typer.Option(help="Numbers of the sentences that count: 0,3")] = "",
    facet: Annotated[
        list[Facet] | None, typer.Option(help="Count the sentences of this facet; may be repeated.")
    ] = None,
    unlike: Annotated[
        list[Facet] | None,
        typer.Option(
            metavar="<facet>", help="Prefer papers unlike the query in this facet; may be repeated."
        ),
    ] = None,
    unlike_sentences: Annotated[
        str, typer.Option(help="Prefer papers unlike these sentences of the query, by number.")
    ] = "",
    unlike_weight: Annotated[
        float | None,
        typer.Option(min=0.01, max=1, help="Weight of --unlike.", show_default="0.4"),
    ] = None,
    focus: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="How strongly the chosen sentences are set apart from the rest."),
    ] = None,
    limit: Limit = 10,
    scorer: Annotated[ScorerName, typer.Option(help="How a paper is scored.")] = "ot",
    tau: Annotated[
        float | None, typer.Option(min=1e-3, max=1e6, help="Temperature of the marginals.")
    ] = None,
    words: Words = None,
    specificity: Specificity = None,
    year_from: YearFrom = None,
    year_to: YearTo = None,
    author: Authors = None,
    venue: Venues = None,
    field: Fields = None,
    has_facet: HasFacets = None,
    device: Device = "auto",
    output: OutputFormat = Output.TEXT,
    as_json: AsJson = False,
    save: Save = "",
) -> None:
    """Find papers similar to a paper or a short text, and see which sentences match.

    Searches the collection in --data, or sends the query to the running service at --url, which is faster.
    """
    form = form_of(output, as_json)
    if source not in {"", "-"} and not is_file(source):
        raise InputError(
            f"{source[:80]!r} is no file. To search by words, give --text {shlex.quote(source[:80])}; by an "
            "indexed paper, --paper."
        )
    request = cast(
        SearchRequest,
        {
            **read_query(paper_id=paper, sources=(source, abstract), text=text),
            **read_aspect(sentences, facet, focus, unlike=(unlike_sentences, unlike), weight=unlike_weight),
            **given(
                filters=filters_of(year_from, year_to, author, venue, field, has_facet),
                scorer=scorer,
                tau=tau,
                words=words,
                specificity=specificity,
                limit=limit,
            ),
        },
    )
    with open_client(url, data, key=key, device=device) as collection:
        expect_name(collection, save, data=data, search=to_save(request))
        with naming_lost(collection, {"paper_id": paper} if paper else {}):
            answer = collection.search(**request)
        with saving(collection, save, search=to_save(request)):
            print_answer(form, lasting(answer, data))
