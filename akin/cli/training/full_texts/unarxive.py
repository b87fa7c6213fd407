"""Reads unarXive's full texts, with ``{{cite:KEY}}`` as the mark of a citation.

``bib_entries[KEY]["ids"]`` has the known ids of the cited paper. A mark becomes its number in brackets; the
mark of a formula, figure or table becomes that word in capitals.
"""

import re
from collections.abc import Iterator, Mapping

from akin.cli.training.full_texts.full_text import DOI, FullText, Paragraph
from evaluation.sets.files import JsonObject
from indexer.corpus.rows import at
from models.errors import InputError

_MARK = re.compile(r"\{\{(\w{1,20}):([^{}]{1,80})\}\}")
_CITE = "cite"
_ARXIV, _OPENALEX = "arxiv:", "openalex:"


def is_unarxive(row: JsonObject) -> bool:
    """Return whether a line is a paper of unarXive: S2ORC has the same keys, but other entries."""
    entries = row.get("bib_entries")
    return "body_text" in row and (
        isinstance(at(row, "metadata", "categories"), str)
        or (
            isinstance(entries, dict)
            and any(
                isinstance(each, dict) and {"ids", "bib_entry_raw"} & each.keys() for each in entries.values()
            )
        )
    )


def read_unarxive(row: JsonObject) -> FullText:
    """Return the full text of a line, whose citing paper is given by id, title and DOI.

    A cited paper has its arXiv id, OpenAlex id and DOI. Raises InputError for a line of another layout.
    """
    paragraphs, entries = row["body_text"], row.get("bib_entries")
    name = at(row, "metadata", "id") or row.get("paper_id")
    if not (isinstance(paragraphs, list) and isinstance(entries, dict) and isinstance(name, str)):
        raise InputError('expected "paper_id", "body_text" (a list) and "bib_entries" (an object)')
    title, doi = at(row, "metadata", "title"), at(row, "metadata", "doi")
    return FullText(
        f"{_ARXIV}{name}",
        _paragraphs(paragraphs, {key: number for number, key in enumerate(entries, start=1)}),
        {key: _names(entry) for key, entry in entries.items()},
        title if isinstance(title, str) else "",
        doi if isinstance(doi, str) else None,
    )


def _paragraphs(given: list[object], numbers: Mapping[str, int]) -> Iterator[Paragraph]:
    for paragraph in given:
        text = at(paragraph, "text")
        if not isinstance(text, str):
            raise InputError('expected "text" in each paragraph of "body_text"')
        yield _without_marks(text, numbers)


def _without_marks(text: str, numbers: Mapping[str, int]) -> Paragraph:
    parts: list[str] = []
    places: list[tuple[int, str]] = []
    length = end = 0
    for mark in _MARK.finditer(text):
        kind, key = mark.groups()
        before = text[end : mark.start()]
        space = " " if (before or text[:end])[-1:].strip() else ""
        shown = f"[{numbers.get(key, 0)}]" if kind == _CITE else kind.upper()
        if kind == _CITE:
            places.append((length + len(before) + len(space), key))
        parts += [before, space, shown]
        length += len(before) + len(space) + len(shown)
        end = mark.end()
    return Paragraph("".join([*parts, text[end:]]), tuple(places))


def _names(entry: object) -> tuple[str, ...]:
    """Return the names of a cited paper, the best first."""
    known = [at(entry, "ids", key) for key in ("arxiv_id", "open_alex_id", "doi")]
    arxiv, openalex, doi = (one if isinstance(one, str) else "" for one in known)
    return (
        *([f"{_ARXIV}{arxiv}"] if arxiv else []),
        *([f"{_OPENALEX}{openalex.rpartition('/')[2]}"] if openalex else []),
        *([f"{DOI}{doi.casefold()}"] if doi else []),
    )
