"""``akin papers``: papers listed, filtered and counted, or found by title."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final, Literal, cast

import typer
from rich.console import Group
from rich.text import Text

from akin.cli.consoles import stderr, stdout
from akin.cli.options import (
    AsJson,
    Authors,
    Device,
    Fields,
    HasFacets,
    Key,
    MaybeData,
    Output,
    Url,
    Venues,
    YearFrom,
    YearTo,
    filters_of,
    form_of,
)
from akin.cli.output import as_json, format_answer, print_data
from akin.cli.render import authors_of, title_line
from akin.cli.search.query import open_client
from akin.client.client import Client
from akin.client.params import ListFilters
from akin.client.responses.papers import Paper, PaperList, PaperSummary
from models.counts import counted
from models.errors import InputError

if TYPE_CHECKING:
    from akin.local.collection import Collection

_AT_ONCE: Final = 100  # the most papers in one answer of a service


def papers(
    data: MaybeData = None,
    url: Url = "",
    key: Key = None,
    title: Annotated[
        str | None, typer.Option(help="Find papers by title or by words of it; misspelt titles match too.")
    ] = None,
    year_from: YearFrom = None,
    year_to: YearTo = None,
    author: Authors = None,
    venue: Venues = None,
    field: Fields = None,
    has_facet: HasFacets = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of papers per page.")] = 20,
    page: Annotated[int, typer.Option(min=1, help="Number of the page, from 1.")] = 1,
    n_only: Annotated[bool, typer.Option("--count", help="Print only the number of papers.")] = False,
    output: Annotated[
        Literal["text", "titles", "json", "csv", "bibtex", "ris"],
        typer.Option(help="Text for people, titles alone, or a format for programs."),
    ] = "text",
    as_json: AsJson = False,
    device: Device = "auto",
) -> None:
    """List or count the papers of a collection, or find one by its title.

    Reads the collection in --data, or sends a request to the running service at --url.
    """
    filters = cast(ListFilters, filters_of(year_from, year_to, author, venue, field, has_facet))
    first, form = (page - 1) * limit, form_of(Output(output), as_json)
    if title is not None:
        _expect_title(title, limit, alone=not (filters or n_only or first))
    if n_only and (first or form is not Output.TEXT):
        raise InputError("--count prints a number alone; it cannot be combined with --page or an --output.")
    with open_client(url, data, key=key, device=device) as collection:
        if title:
            _by_title(collection, title, limit=limit, form=form)
            return
        if n_only:
            found = collection.list_papers(limit=1, **filters)
            typer.echo(found.total)
            if found.detail:
                stderr.print(found.detail, style="yellow")
            return
        found = _listed(collection, filters, first=first, limit=limit)
    if not found.papers and form is not Output.JSON:  # which shows that it is empty
        page_is_past = f"Page {page} is past the last of {counted(found.total, 'paper')}."
        none = found.detail or "The collection has no papers."
        stderr.print(page_is_past if found.total else none, style="yellow")
    if form in {Output.TEXT, Output.TITLES}:
        stdout.print(_lines(found.papers, with_authors=form is Output.TEXT))
    else:
        print_data(format_answer(form, found))
    if form not in {Output.TEXT, Output.JSON} and 0 < len(found.papers) < found.total:
        part = f"{counted(len(found.papers), 'paper')} of {found.total:,}; --limit and --page give others."
        stderr.print(part, style="yellow")
    if form is Output.TEXT:
        shown = f"{first + 1:,} to {first + len(found.papers):,} of " if found.papers else ""
        stdout.print(f"{shown}{counted(found.total, 'paper')}, generation {found.generation}")


def _expect_title(title: str, limit: int, *, alone: bool) -> None:
    """Raise InputError for a title that cannot be searched for, or not ``alone``."""
    if not title.strip():
        raise InputError("--title is empty: give a title, or most of it.")
    if not alone:
        raise InputError("--title cannot be combined with filters, --count or --page.")
    if limit > _AT_ONCE:
        raise InputError(f"With --title, --limit is at most {_AT_ONCE}.")


def _listed(collection: "Client | Collection", filters: ListFilters, *, first: int, limit: int) -> PaperList:
    """Return at most ``limit`` papers from number ``first`` (from 0)."""
    # A service's pages can only be read in order, so the papers before are fetched too, and dropped.
    if isinstance(collection, Client):
        found = collection.list_papers(limit=first + limit, **filters)
        return replace(found, papers=found.papers[first:], next_cursor=None)
    cursor = collection._cursor_at(first, filters)  # noqa: SLF001 - no client has it, as no service does
    return replace(collection.list_papers(limit=limit, cursor=cursor, **filters), next_cursor=None)


def _by_title(collection: "Client | Collection", title: str, *, limit: int, form: Output) -> None:
    found = collection.find_papers(title, limit=limit)
    if form is Output.JSON:
        print_data(as_json(found))
    elif form in {Output.TEXT, Output.TITLES}:
        stdout.print(_lines([each.paper for each in found.results], with_authors=form is Output.TEXT))
    else:
        raise InputError(f"--title prints text, titles or json, not {form.value}.")
    if found.detail:
        stderr.print("No paper has a similar title, or one with these words.", style="yellow")


def _lines(found: Sequence[Paper | PaperSummary], *, with_authors: bool) -> Group:
    """Render a line for each paper, and one for its authors and venue."""
    lines = []
    for paper in found:
        lines.append(title_line(paper))
        if with_authors and (byline := " · ".join(filter(None, (authors_of(paper), paper.venue)))):
            lines.append(Text(f"    {byline}", style="dim"))
    return Group(*lines)
