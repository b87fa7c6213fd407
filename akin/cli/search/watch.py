"""``akin watch``: new papers for saved queries."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import TypeAdapter
from rich.console import Group
from rich.text import Text

from akin.cli.consoles import stderr, stdout
from akin.cli.options import Device, Key, MaybeData, Url
from akin.cli.render import Hanging, heading, notes
from akin.cli.search.query import open_client
from akin.cli.search.unresolved import lost_line
from akin.client.responses.saved import News, SavedQuerySummary
from models.counts import counted
from models.errors import InputError, SavedQueryNotFoundError, ServiceError

if TYPE_CHECKING:
    from akin.client.client import Client
    from akin.local.collection import Collection

_NEWS = TypeAdapter(News)


def watch(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names or ids of saved queries; default: all.")
    ] = None,
    data: MaybeData = None,
    url: Url = "",
    key: Key = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many papers of each query.")] = 10,
    weak: Annotated[bool, typer.Option("--weak", help="Also show papers that are hardly related.")] = False,
    seen: Annotated[
        bool,
        typer.Option(
            "--seen",
            help="Mark all papers added until now as seen, related or not; they are no longer new. "
            "If none is shown, or more match than --limit shows, nothing is marked. With --data, queries "
            "that were saved with a key are never marked.",
        ),
    ] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Delete the named saved queries.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each query, as GET /v1/queries/ID/new.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Show new matches of saved queries: papers added since the query was last marked as seen.

    Save a query with `akin search --save NAME` or `POST /v1/queries`. With --data all saved queries of the
    collection are shown; with --url, those of the key.
    """
    if forget and not names:
        raise InputError("Name the saved queries that --forget should delete.")
    if forget and (seen or weak or as_json):
        raise InputError("--forget shows nothing; it cannot be combined with --seen, --weak or --json.")
    with open_client(url, data, key=key, device=device) as collection:
        wanted = _wanted(collection.saved_queries(), names or ())
        if forget:
            _expect_one_each(wanted, names or ())
        if not wanted:
            stderr.print("There is no saved query; save one with `akin search ... --save NAME`.")
        if forget:
            for query in wanted:
                collection.delete_query(query.id)
                stdout.print(f"Deleted {query.name!r}.")
            return
        shown = [_show(collection, each, limit, weak=weak, seen=seen, as_json=as_json) for each in wanted]
        if not all(shown):
            raise typer.Exit(1)


def _show(
    collection: "Client | Collection",
    query: SavedQuerySummary,
    limit: int,
    *,
    weak: bool,
    seen: bool,
    as_json: bool,
) -> bool:
    """Print the new papers of a saved query, or why it cannot be answered; return whether it can."""
    try:
        news = collection.new_papers(query.id, limit=limit, weak=weak)
    except (InputError, ServiceError) as error:  # of this query alone, as a paper that is also a negative
        if isinstance(error, ServiceError) and error.status != HTTPStatus.UNPROCESSABLE_ENTITY:
            raise
        stderr.print(f"{query.name!r} cannot be answered: {error}", style="yellow", soft_wrap=True)
        return False
    if as_json:
        typer.echo(_NEWS.dump_json(news))
    else:
        stdout.print(_shown(query, news))
    if seen:
        _mark_seen(collection, query, news)
    return True


def _mark_seen(collection: "Client | Collection", query: SavedQuerySummary, news: News) -> None:
    """Mark the new papers as seen, or print why they are not."""
    if kept := _unread(news):
        stderr.print(f"{query.name!r} was not marked as seen: {kept}")
        return
    try:
        collection.mark_seen(query.id, news.seen_up_to)
    except SavedQueryNotFoundError as error:  # of a folder: a service lists only queries that the key saved
        reason = f"only key {query.owner}, which saved it, can mark it, with --url." if query.owner else error
        stderr.print(f"{query.name!r} was not marked as seen: {reason}", soft_wrap=True)


def _wanted(saved: Sequence[SavedQuerySummary], names: Sequence[str]) -> list[SavedQuerySummary]:
    """Return the saved queries with these names or ids; raises InputError if one does not exist."""
    if not names:
        return list(saved)
    found = [each for each in saved if {each.name, each.id} & {*names}]
    missing = {*names} - {name for each in found for name in (each.name, each.id)}
    if missing:
        there = ", ".join(repr(each.name) for each in saved) or "none"
        raise InputError(
            f"No saved query has the name or id {sorted(missing)[0][:60]!r}; there are: {there[:500]}."
        )
    return found


def _expect_one_each(found: Sequence[SavedQuerySummary], names: Sequence[str]) -> None:
    """Raise InputError for a name that several saved queries, of different keys, have."""
    for name in names:
        called = [each for each in found if each.name == name]
        if len(called) > 1 and name not in {each.id for each in found}:
            listed = ", ".join(f"{each.id} ({_whose(each)})" for each in called)
            raise InputError(
                f"{len(called)} saved queries have the name {name[:60]!r}; nothing was deleted, so give the "
                f"id of the one to delete: {listed[:1000]}."
            )


def _whose(query: SavedQuerySummary) -> str:
    return f"of key {query.owner}" if query.owner else "saved without a key"


def _unread(news: News) -> str:
    """Return why new papers cannot be marked as seen, and what to do; "" if they can."""
    if news.coverage < 1:
        return "a part of the collection could not be searched; watch it again later."
    if news.reason == "no_seed_resolved":
        return "none of its seeds can be used; add them to the collection again, or delete it with --forget."
    if news.reason == "no_match_added":
        return "no new paper was shown; --weak shows them."
    n_hidden = news.matching - len(news.results)
    if n_hidden <= 0:
        if any(each.code == "list_ends_at" for each in news.warnings):
            return "more papers match than a list can have; save the query again with filters to see all."
        return ""
    more = counted(n_hidden, "more paper matches", "more papers match")
    return f"{more}; show all of them with --limit {news.matching}."


def _shown(query: SavedQuerySummary, news: News) -> Group:
    """Render a query's name, then its new papers, or why there are none."""
    since = query.seen_at or query.created_at
    summary = f"{len(news.results)} of {counted(news.added, 'paper')} added" if news.added else "nothing new"
    shown: list[Text | Hanging] = [
        Text.assemble((query.name, "bold"), f": {summary} since {since:%Y-%m-%d %H:%M} UTC")
    ]
    shown += [heading(rank, result) for rank, result in enumerate(news.results, start=1)]
    shown += [Text(f"Left out: {lost_line(lost)}", style="yellow") for lost in news.unresolved]
    if news.results and news.coverage == 1 and (kept := _unread(news)):  # otherwise another line says so
        shown.append(Text(kept, style="yellow"))
    if news.reason == "no_match_added" and news.coverage == 1:
        shown.append(Text("All of them are hardly related; --weak shows them.", style="yellow"))
    elif news.detail and news.reason != "nothing_added":
        shown.append(Text(news.detail, style="yellow"))
    return Group(*shown, *notes(news.warnings), Text())
