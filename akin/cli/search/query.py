"""Reading of a query from the command line: its paper or text, and the sentences or facets that count."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import orjson

from akin.cli.consoles import read_input, stderr
from akin.client.params import RecommendationsRequest, SearchRequest
from akin.client.responses.ranked import RecommendationsAnswer, SearchAnswer
from indexer.files.durable import storage_errors
from models.errors import InputError
from models.text.sentences import split_sentences
from models.types import Facet

if TYPE_CHECKING:
    from akin.client.client import Client
    from akin.local.collection import Collection

_Ranked = TypeVar("_Ranked", SearchAnswer, RecommendationsAnswer)
_Request = TypeVar("_Request", SearchRequest, RecommendationsRequest)
_MAX_SAVED: Final = 100  # the most papers of a page
_EMPTY_LINE = re.compile(r"\r?\n[ \t]*\r?\n")


def open_client(
    url: str, data: Path | None, *, key: str | None = None, device: str = "auto"
) -> "Client | Collection":
    """Return a client of the service at ``url``, or the collection in ``data``, in this process.

    Raises InputError unless exactly one of the two is given.
    """
    if bool(url) == (data is not None):
        raise InputError(
            "Give either --data (or AKIN_DATA), a folder that was indexed, or --url, the address of a "
            "running service."
        )
    # Import only the one used: a client starts in half a second, a folder opens in seconds.
    if data is None:
        from akin.client.client import Client

        return Client(url, key=key)
    from akin.local.collection import Collection

    return Collection(data, device=device)


def lasting(answer: _Ranked, data: Path | None) -> _Ranked:
    """Return an answer without its cursor if it comes from ``data``: that is valid only in this process."""
    return answer if data is None else replace(answer, next_cursor=None)


def to_save(request: _Request) -> _Request:
    """Return a request as it is saved, with ``limit`` reduced to the most papers of a page."""
    saved = cast(_Request, dict(request))
    if saved.get("limit", 0) > _MAX_SAVED:
        saved["limit"] = _MAX_SAVED
    return saved


def expect_name(collection: "Client | Collection", name: str, *, data: Path | None, **request: Any) -> None:
    """Raise InputError or ServiceError now, before a search, if ``name`` is that of another saved query."""
    if not name:
        return
    # A folder has the queries of all keys, but one saved here belongs to no key; a service lists one's own.
    own = [each for each in collection.saved_queries() if data is None or not each.owner]
    if any(each.name == name for each in own):
        collection.save_query(name, **request)


@contextmanager
def saving(collection: "Client | Collection", name: str, **request: Any) -> Iterator[None]:
    """Save the request under ``name``, unless empty, at the end: also if the output was closed meanwhile."""
    try:
        yield
    finally:
        if name:
            saved = collection.save_query(name, **request)
            stderr.print(f"Saved as {saved.name!r}.")


def read_aspect(
    sentences: str,
    facets: Sequence[Facet] | None,
    focus: float | None,
    *,
    unlike: tuple[str, Sequence[Facet] | None],
    weight: float | None,
) -> dict[str, Any]:
    """Return the parts in which papers should be similar, and those to be unlike; raises InputError.

    Sentences are numbers such as ``0,3``; ``unlike`` are also sentences or facets, with this ``weight``.
    """
    query = _choice(sentences, facets, option="--sentences") | given(focus=focus)
    if unlike[0] or unlike[1]:
        chosen = _choice(*unlike, option="--unlike-sentences")
        return {**query, "unlike": chosen | given(weight=weight)}
    if weight is not None:
        raise InputError("--unlike-weight is the weight of --unlike; give --unlike FACET as well.")
    return query


def given(**keywords: Any) -> dict[str, Any]:
    """Return the keywords that are neither ``None`` nor empty."""
    return {name: value for name, value in keywords.items() if value not in (None, "", [], {})}


def _choice(sentences: str, facets: Sequence[Facet] | None, *, option: str) -> dict[str, Any]:
    if not sentences:
        return {"facet": [facet.value for facet in facets]} if facets else {}
    if facets:
        raise InputError(f"Choose sentences or a facet, not both ({option} and a facet are given).")
    try:
        return {"sentences": [int(number) for number in sentences.split(",")]}
    except ValueError as error:
        raise InputError(
            f"{option} {sentences[:40]!r}: give numbers from 0, separated by commas, such as 0,3"
        ) from error


def read_query(*, paper_id: str, sources: Sequence[str], text: str = "") -> dict[str, Any]:
    """Return the query: ``paper_id``, or ``text``, or the paper in the only source (``-``: standard input).

    A file contains the title, an empty line and the abstract; or the abstract alone; or one JSON paper with
    ``title`` and ``abstract`` (text or list of sentences). Raises InputError, StorageError.
    """
    named = [source for source in sources if source]
    if len(named) + bool(paper_id) + bool(text) != 1:
        raise InputError(
            "Name the query once: --paper ID, --abstract FILE, --text TEXT, or - for standard input."
        )
    if paper_id or text:
        return given(paper_id=paper_id, text=text)
    content = _read(named[0])
    if not content.strip():
        what = "Standard input" if named[0] == "-" else named[0]
        raise InputError(
            f"{what} is empty: give a title, an empty line and an abstract, or the abstract alone."
        )
    return _parse(content)


def is_file(given: str) -> bool:
    """Return whether a text is the path of a file or a pipe; a title may be longer than a file name."""
    # Methods of Path raise OSError for such a title.
    return os.path.exists(given) and not os.path.isdir(given)  # noqa: PTH110, PTH112


def _read(source: str) -> str:
    path = Path(source)
    try:
        with storage_errors(path):
            text = read_input() if source == "-" else path.read_bytes()
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: not UTF-8 text (byte {error.start}); convert it first") from error


def _parse(text: str) -> dict[str, Any]:
    if text.lstrip().startswith("{") or _is_json_list(text):
        return _parse_json(text)
    head, *rest = _EMPTY_LINE.split(text.strip(), maxsplit=1)
    # A first paragraph of several lines, or of several sentences up to a full stop, belongs to the abstract.
    is_title = "\n" not in head and (len(split_sentences(head)) == 1 or not head.rstrip().endswith("."))
    if rest and is_title:
        return {"title": head.strip(), "abstract": rest[0].strip()}
    return {"title": "", "abstract": text.strip()}


def _parse_json(text: str) -> dict[str, Any]:
    try:
        paper = orjson.loads(text)
        title, abstract = paper.get("title", ""), paper["abstract"]
    except (ValueError, KeyError, AttributeError) as error:
        raise InputError(
            "The query looks like JSON but is not one object with an abstract; give one paper, as "
            '{"title": ..., "abstract": ...}.'
        ) from error
    if isinstance(abstract, list) and not all(isinstance(each, str) for each in abstract):
        raise InputError('"abstract" is a list, but not of sentences: each item must be a text.')
    return {"title": title, "abstract": abstract}


def _is_json_list(text: str) -> bool:
    """Return whether a text is a JSON list; an abstract may also begin with a bracket."""
    if not text.lstrip().startswith("["):
        return False
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
