"""``akin.index``: indexing of papers from Python values or files."""

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import orjson

from akin.client.signatures import spelt
from akin.client.uploads import NewPaper, Papers, parts_of, prepared
from akin.compiling import compile_in_background
from akin.local.collection import Collection
from indexer.collection.build import BuildReport, build
from indexer.corpus.read import OWN_NAME, expect_corpus
from indexer.encoding.arguments import arguments_for, load_models
from indexer.encoding.on_devices import encoding
from indexer.files.durable import storage_errors
from models.counts import counted
from models.errors import CorpusError, InputError
from models.types import ProgressFn, ignore_progress
from service.settings import settings_of

_NAMED = 3  # papers not indexed that a warning names
_FIRST_SEEN = re.compile(r"first seen at line (\d+)")


@spelt
def index(
    papers: Papers,
    data: str | Path,
    *,
    encoder: str = "",
    device: str | None = None,
    backend: str = "",
    format_name: str = "auto",
    limit: int | None = None,
    on_error: Literal["skip", "fail"] = "skip",
    replace: bool = False,
    on_progress: ProgressFn = ignore_progress,
) -> Collection:
    """Add papers to the collection in the folder ``data``, or create it, and open it.

    ``papers`` are dictionaries with ``id``, ``title``, ``abstract`` (text, or a list of sentences) and, if
    known, ``facets``, ``year``, ``venue``, ``authors``, ``url``, ``doi``, ``fields``; or one or several
    files in any format that ``akin index`` reads (``format_name`` is their format; ``auto`` detects it).
    Papers replace those with the same ids; with ``replace``, they replace the whole collection. Papers that
    cannot be used are skipped with a warning, or with ``on_error="fail"`` nothing is added.

    ``encoder`` and ``backend`` are as in ``akin index``; by default, those of an existing collection, and
    ``device`` is AKIN_DEVICE. The catalog is at AKIN_CATALOG_URL if that is set, else in ``data``. At
    most ``limit`` papers are read. ``on_progress`` receives a stage in words, the amount done and the total.

    Raises InputError, CorpusError, EncoderError, StorageError, EncoderMismatchError, BuildLockedError.
    """
    if not isinstance(data, str | Path):
        raise InputError(f"akin.index takes the path of a data folder, not {type(data).__name__}.")
    _expect_usable(limit, on_error)
    limit = None if limit is None else int(limit)
    settings = settings_of(data=data, device=device, ray="")
    folder = settings.data
    arguments = arguments_for(
        folder,
        replace=replace,
        encoder=encoder,
        device=settings.own_device,
        backend=backend,
        format_name=format_name,
        limit=limit,
        on_error=on_error,
    )
    given = list(parts_of(papers))
    if not given:
        raise InputError("There is no paper to index: the list is empty.")
    for file in _paths(given):
        expect_corpus(file, format_name)
    compile_in_background()
    with TemporaryDirectory(prefix="akin-") as scratch:
        file = Path(scratch) / OWN_NAME
        try:
            annotator = load_models(arguments)
            report = build(
                _files(given, file),
                folder,
                annotator,
                arguments=arguments,
                on_progress=on_progress,
                catalog=settings.catalog,
                replace=replace,
                keep=settings.keep,
                encode=encoding(annotator, arguments),
            )
        except CorpusError as error:
            error.args = (_by_numbers(str(error), file),)
            raise
    if left_out := _left_out(report):
        warnings.warn(_by_numbers(left_out, file), stacklevel=3)
    for each in report.staging.retitled:
        warnings.warn(
            f"{each}; if it is another paper, change the id of one and index both again", stacklevel=3
        )
    if report.unmerged:
        warnings.warn(f"Segments were not merged: {report.unmerged}", stacklevel=3)
    return Collection(folder, device=device)


def _expect_usable(limit: Any, on_error: object) -> None:
    """Raise InputError for a ``limit`` or ``on_error`` that is not valid."""
    if limit is not None and (not hasattr(limit, "__index__") or isinstance(limit, bool) or limit < 1):
        raise InputError("limit must be a whole number of papers from 1, or None for all of them.")
    if on_error not in ("skip", "fail"):
        raise InputError(f"on_error must be 'skip' or 'fail', not {on_error!r}.")


def _files(given: list[str | Path | NewPaper], file: Path) -> list[Path]:
    """Return the given files and, if papers were given, ``file`` after writing them to it."""
    files = _paths(given)
    papers = [each for each in given if not isinstance(each, str | Path)]
    if papers:
        with storage_errors(file), file.open("wb") as stream:
            stream.writelines(_line(paper, number) for number, paper in enumerate(papers))
        files.append(file)
    return files


def _paths(given: list[str | Path | NewPaper]) -> list[Path]:
    return [Path(each) for each in given if isinstance(each, str | Path)]


def _line(paper: Any, number: int) -> bytes:
    """Return a paper as a line of JSON; raises InputError, which names a misspelt or unwritable field."""
    if not isinstance(paper, Mapping):
        raise InputError(f"papers[{number}] is neither a dictionary nor a file, but {type(paper).__name__}.")
    fields = prepared(paper, number)
    try:
        return _json(fields)
    except TypeError as error:
        for name, value in fields.items():
            try:
                _json({name: value})
            except TypeError:
                is_cut = isinstance(value, str)
                what = "text with half of a character (a surrogate)" if is_cut else type(value).__name__
                raise InputError(
                    f"papers[{number}]: the field {str(name)[:60]!r} is {what}; give a text, a number or "
                    "a list."
                ) from error
        raise


def _json(fields: dict[str, Any]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY)


def _by_numbers(message: str, file: Path) -> str:
    """Replace lines of the temporary ``file`` in a message by papers: its first line is papers[0]."""
    begin, *parts = message.split(f"{file}:")
    for part in parts:
        line, colon, rest = part.partition(":")
        rest = _FIRST_SEEN.sub(lambda seen: f"first in papers[{int(seen[1]) - 1}]", rest)
        begin += f"papers[{int(line) - 1}]{colon}{rest}" if line.isdecimal() else f"the papers given:{part}"
    return begin


def _left_out(report: BuildReport) -> str:
    """Return which papers were not indexed, and why; "" if all were."""
    refusals = report.staging.refusals
    n_lost = refusals.broken + refusals.without_abstract + len(report.quarantined)
    named = [*refusals.broken_rows, *(f"{each.paper_id}: {each.reason}" for each in report.quarantined)]
    lines = [str(each) for each in named[:_NAMED]]
    if refusals.without_abstract:
        table = report.staging.unresolved
        where = "" if table is None else f" ({table} lists those that can be looked up)"
        lines.append(f"{refusals.without_abstract:,} without an abstract{where}")
    return f"{counted(n_lost, 'paper was', 'papers were')} not indexed: {'; '.join(lines)}" if n_lost else ""
