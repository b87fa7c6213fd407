"""Conversion of dictionaries and files into papers to upload."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NotRequired, TypedDict
from warnings import warn

from akin.client.params import FacetName
from models.counts import counted
from models.errors import CorpusError, InputError
from models.extras import needed

if TYPE_CHECKING:
    from models.types import Paper

MAX_ADDED: Final = 1_000  # papers in one request
_SHOWN: Final = 3  # left out papers that a warning names


class NewPaper(TypedDict):
    """A paper to add, or to replace the one with the same id; ``facets`` has one facet per sentence."""

    id: str
    title: str
    abstract: str | Sequence[str]
    facets: NotRequired[Sequence[FacetName | None]]
    year: NotRequired[int | None]
    venue: NotRequired[str | None]
    authors: NotRequired[Sequence[str]]
    url: NotRequired[str | None]
    doi: NotRequired[str | None]
    fields: NotRequired[Sequence[str]]


# A paper, a file, or several of them.
Papers = NewPaper | str | Path | Iterable[NewPaper | str | Path]


def papers_to_add(given: Papers) -> list[dict[str, Any]]:
    """Return the papers to send; raises InputError, CorpusError, StorageError, warns of those left out."""
    papers = list(islice(_of_all(parts_of(given)), MAX_ADDED + 1))
    if not papers:
        raise InputError("There is no paper to add: the list is empty.")
    if len(papers) > MAX_ADDED:
        raise InputError(
            f"These are more papers than the {MAX_ADDED:,} that can be added at a time; add them in parts, "
            "or give them to akin.index, which takes any number."
        )
    return papers


def parts_of(given: Any) -> Iterable[Any]:
    """Return papers and files as an iterable, also a single one; raises InputError for other values."""
    if isinstance(given, str | Path | Mapping):
        return [given]
    if not isinstance(given, Iterable) or hasattr(given, "to_dict"):
        raise InputError(
            f"Papers are dictionaries or files, not {type(given).__name__}; for a pandas table, give "
            "table.to_dict('records')."
        )
    return given


def _of_all(parts: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for number, part in enumerate(parts):
        if isinstance(part, Mapping):
            yield prepared(part, number)
        elif isinstance(part, str | Path):
            yield from _of_file(Path(part))
        else:
            raise InputError(
                f"papers[{number}] is neither a dictionary with id, title and abstract nor a file, but "
                f"{type(part).__name__}; nothing was added."
            )


def _without_missing(paper: Mapping[str, Any]) -> dict[str, Any]:
    """Return a paper without the fields that have no value: None, or nan, NaT or NA of a table."""
    return {name: value for name, value in paper.items() if not _is_missing(value)}


def _is_missing(value: object) -> bool:
    nan = isinstance(value, float) and isnan(value)
    return value is None or nan or type(value).__name__ in {"NAType", "NaTType"}


def prepared(paper: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a paper with the types that a service expects and without other fields, as from a file.

    Raises InputError for a field that seems to be one that the paper lacks, misspelt.
    """
    known = NewPaper.__annotations__
    for unknown in (str(name) for name in paper if name not in known):
        near = get_close_matches(unknown[:60], known, n=1)
        if near and near[0] not in paper:
            raise InputError(
                f"papers[{number}] has the unknown field {unknown[:60]!r}; did you mean {near[0]!r}? "
                f"The fields are {', '.join(known)}; others, if they resemble none of these, are ignored."
            )
    return {
        name: _typed(name, value.tolist() if hasattr(value, "tolist") else value)
        for name, value in _without_missing(paper).items()
        if name in known
    }


def _typed(name: str, value: Any) -> Any:
    """Return the value of a field: ids as text, years as numbers, and names with semicolons as a list."""
    if name == "id" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if name == "year" and isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if name == "year" and isinstance(value, float) and value.is_integer():
        return int(value)
    if name in {"authors", "fields"} and isinstance(value, str):
        return [part for each in value.split(";") if (part := each.strip())]
    return value


def _of_file(file: Path) -> list[dict[str, Any]]:
    with needed("Reading a file of papers", extra="local"):
        from indexer.corpus.read import CorpusReport, read_corpus  # noqa: PLC0415 - clients do without it
    report = CorpusReport()
    papers = [_sent(paper) for paper in islice(read_corpus(file, report=report), MAX_ADDED + 1)]
    lost = [str(row) for row in report.broken_rows[:_SHOWN]]
    if report.without_abstract:
        lost.append(f"{report.without_abstract:,} without an abstract")
    if not papers:
        raise CorpusError(
            f"{file} holds no paper that can be added ({'; '.join(lost) or 'it has no entry'})."
        )
    if lost:
        n_lost = report.broken + report.without_abstract
        warn(
            f"{file}: {counted(n_lost, 'paper was', 'papers were')} not added: {'; '.join(lost)}",
            stacklevel=7,
        )
    return papers


def abstract_of(paper: "Paper") -> str | list[str]:
    """Return the abstract of a paper of a file: its sentences if they have facets or were given as a list."""
    from models.text.sentences import split_sentences  # noqa: PLC0415 - clients do without it

    sentences = [sentence.text for sentence in paper.sentences]
    labelled = any(sentence.facet is not None for sentence in paper.sentences)
    as_text = [sentence.text for sentence in split_sentences(paper.abstract)]
    return sentences if labelled or sentences != as_text else paper.abstract


def _sent(paper: "Paper") -> dict[str, Any]:
    """Return a paper of a file as it is sent."""
    facets = [sentence.facet for sentence in paper.sentences]
    labelled = any(facet is not None for facet in facets)
    fields = {
        "id": paper.id,
        "title": paper.title,
        "abstract": abstract_of(paper),
        "facets": [facet and facet.value for facet in facets] if labelled else None,
        "year": paper.year,
        "venue": paper.venue,
        "authors": list(paper.authors),
        "url": paper.url,
        "doi": paper.doi,
        "fields": list(paper.fields),
    }
    return {name: value for name, value in fields.items() if value is not None}
