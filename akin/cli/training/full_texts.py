"""Citing sentences of unarXive's full texts, with ``{{cite:KEY}}`` as the mark of a citation.

``bib_entries[KEY]["ids"]`` has the known ids of the cited paper. A mark becomes its number in brackets; the
mark of a formula, figure or table becomes that word in capitals.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluation.sets.files import JsonObject
from indexer.corpus.rows import at
from models.errors import InputError
from models.text.sentences import split_sentences
from models.training.pairs.citing import Citation
from models.types import Paper

_MARK = re.compile(r"\{\{(\w{1,20}):([^{}]{1,80})\}\}")
_CITE = "cite"
_ARXIV, _DOI, _OPENALEX = "arxiv:", "doi:", "openalex:"


@dataclass(frozen=True, slots=True)
class _Marked:
    """A paragraph without marks, and its citations: the offset of each number, and the key it stands for."""

    text: str
    places: tuple[tuple[int, str], ...]


def is_full_text(row: JsonObject) -> bool:
    """Return whether a line is a paper of unarXive and not a citing sentence."""
    return "body_text" in row and "bib_entries" in row


def names_of(papers: Mapping[str, Paper]) -> dict[str, str]:
    """Return the id of each paper by its id, and by its DOI after ``doi:``."""
    named = {f"{_DOI}{paper.doi.casefold()}": name for name, paper in papers.items() if paper.doi}
    return named | {name: name for name in papers}


def citing_sentences(row: JsonObject, named: Mapping[str, str]) -> Iterator[Citation]:
    """Yield the citing sentences of a full text, in order, with the ids of the cited papers.

    The citing paper is given by id, title and DOI. A cited paper has its id in ``named``, or else its arXiv
    id, OpenAlex id or DOI; a paper without any only counts in ``n_cited``. Raises InputError for a line of
    another layout.
    """
    paragraphs, entries = row["body_text"], row["bib_entries"]
    name = at(row, "metadata", "id") or row.get("paper_id")
    if not (isinstance(paragraphs, list) and isinstance(entries, dict) and isinstance(name, str)):
        raise InputError('expected "paper_id", "body_text" (a list) and "bib_entries" (an object)')
    title, doi = at(row, "metadata", "title"), at(row, "metadata", "doi")
    known = (title if isinstance(title, str) else "", doi if isinstance(doi, str) else None)
    numbers = {key: number for number, key in enumerate(entries, start=1)}
    for paragraph in paragraphs:
        text = at(paragraph, "text")
        if not isinstance(text, str):
            raise InputError('expected "text" in each paragraph of "body_text"')
        marked = _without_marks(text, numbers)
        for sentence in split_sentences(marked.text):
            keys = dict.fromkeys(key for at_, key in marked.places if sentence.start <= at_ < sentence.end)
            if keys:
                found = dict.fromkeys(_id_of(entries.get(key), named) for key in keys)
                cited = tuple(one for one in found if one is not None)
                context = " ".join(sentence.text.split())
                yield Citation(f"{_ARXIV}{name}", context, cited, len(keys), *known)


def _without_marks(text: str, numbers: Mapping[str, int]) -> _Marked:
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
    return _Marked("".join([*parts, text[end:]]), tuple(places))


def _id_of(entry: object, named: Mapping[str, str]) -> str | None:
    """Return the id of a cited paper, or None if none is known."""
    known = [at(entry, "ids", key) for key in ("arxiv_id", "open_alex_id", "doi")]
    arxiv, openalex, doi = (one if isinstance(one, str) else "" for one in known)
    names = [
        *([f"{_ARXIV}{arxiv}"] if arxiv else []),
        *([f"{_OPENALEX}{openalex.rpartition('/')[2]}"] if openalex else []),
        *([f"{_DOI}{doi.casefold()}"] if doi else []),
    ]
    return next((named[one] for one in names if one in named), names[0] if names else None)
