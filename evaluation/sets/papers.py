"""Papers of test collections, from the titles and abstracts in their files, which may be missing."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from indexer.corpus.read import CorpusReport
from indexer.corpus.rows import clean
from models.counts import counted
from models.errors import InputError
from models.text.sentences import sentences_from_list, split_sentences
from models.types import Facet, Paper


class PaperText(NamedTuple):
    """A paper in a file: ``abstract`` is a text or a list of sentences, with ``facets`` for the sentences."""

    id: str
    title: str
    abstract: str | Sequence[str]
    facets: Sequence[Facet | None] | None = None


def text_of(record: object, key: str) -> str:
    """Return the text under ``key`` of a JSON object; empty if it is missing or not a text."""
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, str) else ""


def to_papers(texts: Iterable[PaperText]) -> tuple[dict[str, Paper], list[str]]:
    """Return the papers by id, and the ids of those left out, with neither title nor abstract.

    A paper without an abstract gets its title as its only sentence, and no title, so that no text counts
    twice. Raises InputError if an id occurs twice.
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
    """Return a short query as a paper: ``text`` is the abstract and the title is empty.

    Raises InputError if ``text`` is empty.
    """
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


def notes_on(
    blank: Sequence[str],
    absent: Collection[str] = (),
    *,
    queries_absent: int = 0,
    without_candidates: int = 0,
) -> tuple[str, ...]:
    """Return report notes about papers that could not be ranked and judged queries that are missing.

    ``absent`` are judged papers that the collection lacks.
    """
    notes = []
    if blank:
        notes.append(f"Papers left out, with neither title nor abstract: {len(blank):,}.")
    if absent:
        notes.append(
            f"Judged papers that are not in the collection: {len(absent):,}, such as {min(absent)!r}."
        )
    if queries_absent:
        notes.append(f"Judged queries that are not in the collection: {queries_absent:,}.")
    if without_candidates:  # an empty pool would stand for every paper
        notes.append(f"Queries left out, whose candidates are not in the collection: {without_candidates:,}.")
    return tuple(notes)


def absent_papers(
    qrels: Mapping[str, Mapping[str, int]], papers: Collection[str], path: Path
) -> frozenset[str]:
    """Return the papers judged in ``path`` that are not among ``papers``; raises InputError if all are."""
    judged = {paper for grades in qrels.values() for paper in grades}
    absent = judged.difference(papers)
    if judged and absent == judged:
        raise InputError(
            f"No paper judged in {path} is in the corpus: one of its ids is {min(judged)!r}, one of the "
            f"corpus's {next(iter(papers), '')!r}. Give papers the same ids in both."
        )
    return frozenset(absent)


def require_judged(queries: Sequence[str], judged: Collection[str], path: Path) -> None:
    """Raise InputError if none of the ``queries`` of the file ``path`` is among those ``judged``."""
    if not any(query in judged for query in queries):
        first_queries, first_judged = (", ".join(list(ids)[:3]) or "none" for ids in (queries, judged))
        raise InputError(
            f"No query of {path} has judgements: its first ids are {first_queries}; the first judged ones "
            f"are {first_judged}. Give queries and judgements the same ids."
        )


def notes_on_rows(report: CorpusReport, corpus: Path) -> tuple[str, ...]:
    """Return report notes about the rows of a corpus file that gave no paper."""
    notes = []
    if report.broken:
        row = report.broken_rows[0]
        notes.append(
            f"Left out: {counted(report.broken, 'row')} of {corpus.name} without a usable paper; "
            f"the first, line {row.line}: {row.reason}."
        )
    if report.without_abstract:
        notes.append(
            f"Left out: {counted(report.without_abstract, 'paper')} of {corpus.name} without an abstract."
        )
    return tuple(notes)
