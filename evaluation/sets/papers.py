"""Papers of test collections, from the titles and abstracts their files give, however little that is."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from indexer.corpus.rows import clean
from models.errors import InputError
from models.text.sentences import sentences_from_list, split_sentences
from models.types import Facet, Paper


class PaperText(NamedTuple):
    """What a file says of a paper: ``abstract`` as a text or as its sentences, with ``facets`` for those."""

    id: str
    title: str
    abstract: str | Sequence[str]
    facets: Sequence[Facet | None] | None = None


def text_of(record: object, key: str) -> str:
    """The text under ``key`` of a JSON object; empty where there is none or a null."""
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, str) else ""


def to_papers(texts: Iterable[PaperText]) -> tuple[dict[str, Paper], list[str]]:
    """The papers by id, and the ids of those left out because they have neither title nor abstract.

    A paper without an abstract stands with its title as its one sentence, and no title, so that no text
    counts twice. Raises InputError where an id comes twice.
    """
    papers: dict[str, Paper] = {}
    blank: list[str] = []
    for text in texts:
        if text.id in papers:
            raise InputError(f"Paper {text.id!r} occurs twice; keep one.")
        if paper := _paper(text):
            papers[text.id] = paper
        else:
            blank.append(text.id)
    return papers, blank


def text_query(query_id: str, text: str) -> Paper:
    """A short query as a paper: ``text`` is its abstract and its title is empty."""
    abstract = clean(text)
    if not abstract:
        raise InputError(f"Query {query_id!r} has no text; give each query one.")
    return Paper(id=query_id, title="", abstract=abstract, sentences=split_sentences(abstract))


def _paper(text: PaperText) -> Paper | None:
    title = clean(text.title)
    if isinstance(text.abstract, str):
        abstract = clean(text.abstract)
        sentences = split_sentences(abstract)
    else:
        abstract, sentences = sentences_from_list([clean(part) for part in text.abstract], text.facets)
    if not sentences:
        title, abstract = "", title
        sentences = split_sentences(abstract)
    if not sentences:
        return None
    return Paper(id=text.id, title=title, abstract=abstract, sentences=sentences)


def notes_on(blank: Sequence[str], judged_but_absent: int = 0) -> tuple[str, ...]:
    """What a report should say of papers that could not be ranked."""
    notes = []
    if blank:
        notes.append(f"Papers left out, with neither title nor abstract: {len(blank):,}.")
    if judged_but_absent:
        notes.append(f"Judged papers that are not in the collection: {judged_but_absent:,}.")
    return tuple(notes)
