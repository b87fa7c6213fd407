"""The query as a person gives it on the command line: its paper, and what of it matters."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import orjson
import typer
from pydantic import ValidationError

from indexer.files.durable import storage_errors
from models.errors import InputError
from models.sentences import split_sentences
from models.types import Facet, Paper
from service.api.schemas.search import PastedIn
from service.resolve.text_query import MAX_TEXT_CHARS
from service.search.aspect import DEFAULT_CONTRAST, Aspect, Contrast
from service.search.query import Seed

_EMPTY_LINE = re.compile(r"\r?\n[ \t]*\r?\n")
# Which papers may answer, for every command that asks.
YearFrom = Annotated[int | None, typer.Option(min=1000, max=2100, help="Earliest year.")]
YearTo = Annotated[int | None, typer.Option(min=1000, max=2100, help="Latest year.")]
Authors = Annotated[list[str] | None, typer.Option(help="Only by this author; may be repeated.")]
Venues = Annotated[list[str] | None, typer.Option(help="Only this venue; may be repeated.")]
Fields = Annotated[list[str] | None, typer.Option(help="Only this field; may be repeated.")]
HasFacets = Annotated[
    list[Facet] | None, typer.Option(help="Only papers with a sentence of this facet; may be repeated.")
]


def read_aspect(
    sentences: str,
    facets: Sequence[Facet] | None,
    focus: float | None,
    *,
    unlike: tuple[str, Sequence[Facet] | None],
    weight: float | None,
) -> Aspect:
    """The respect in which papers should be akin, and that in which they should differ; raises InputError.

    Sentences are numbers as ``0,3``; ``unlike`` are sentences or facets too, and ``weight`` is theirs.
    """
    contrast = None
    if unlike[0] or unlike[1]:
        chosen = _choice(*unlike, option="--unlike-sentences")
        contrast = Contrast(*chosen, DEFAULT_CONTRAST if weight is None else weight)
    elif weight is not None:
        raise InputError("--unlike-weight says how much being unlike counts; give --unlike FACET with it.")
    return Aspect(*_choice(sentences, facets, option="--sentences"), focus, contrast)


def _choice(
    sentences: str, facets: Sequence[Facet] | None, *, option: str
) -> tuple[tuple[int, ...] | None, tuple[Facet, ...]]:
    if not sentences:
        return None, tuple(facets or ())
    if facets:
        raise InputError(f"Choose sentences or a facet, not both ({option} and a facet are given).")
    try:
        return tuple(int(number) for number in sentences.split(",")), ()
    except ValueError as error:
        raise InputError(
            f"{option} {sentences[:40]!r}: give numbers from 0, parted by commas, as 0,3"
        ) from error


def read_query(*, paper_id: str, sources: Sequence[str], text: str = "") -> Seed:
    """The paper behind ``paper_id`` or in the one of ``sources`` given (``-``: standard input), or ``text``.

    A file holds the title, an empty line and the abstract; or the abstract alone; or one JSON paper with
    ``title`` and ``abstract`` (text or list of sentences). Raises InputError, StorageError.
    """
    given = [source for source in sources if source]
    if len(given) + bool(paper_id) + bool(text) != 1:
        raise InputError(
            "Name the query once: --paper ID, --abstract FILE, --text TEXT, or - for standard input."
        )
    if paper_id:
        return Seed(paper_id)
    if text:
        return Seed(text=_text(text))
    return Seed(paper=_parse(_read(given[0])))


def _read(source: str) -> str:
    path = Path(source)
    try:
        with storage_errors(path):
            text = sys.stdin.buffer.read() if source == "-" else path.read_bytes()
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: not UTF-8 text (byte {error.start}); convert it first") from error


def _parse(text: str) -> Paper:
    if text.lstrip().startswith("{"):
        return _parse_json(text)
    head, *rest = _EMPTY_LINE.split(text.strip(), maxsplit=1)
    # A first paragraph of several lines or sentences is the abstract's own.
    if rest and "\n" not in head and len(split_sentences(head)) == 1:
        return _paper(head.strip(), rest[0].strip())
    return _paper("", text.strip())


def _parse_json(text: str) -> Paper:
    try:
        given = orjson.loads(text)
        title, abstract = given.get("title", ""), given["abstract"]
    except (ValueError, KeyError, AttributeError) as error:
        raise InputError("The query looks like JSON but is not one object with an abstract.") from error
    return _paper(title, abstract)


def _text(text: str) -> str:
    if len(text) > MAX_TEXT_CHARS:
        raise InputError(
            f"The text has {len(text):,} characters, more than {MAX_TEXT_CHARS:,}; give it as an abstract: "
            "--abstract FILE."
        )
    return text


def _paper(title: object, abstract: object) -> Paper:
    try:
        return PastedIn.model_validate({"title": title, "abstract": abstract}).to_paper()
    except ValidationError as error:
        first = error.errors()[0]
        where = first["loc"][0] if first["loc"] else "paper"
        reason = first["msg"].removeprefix("Value error, ")
        raise InputError(f"The query's {where}: {reason}.") from error
