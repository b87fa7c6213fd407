"""Papers as Arrow columns: their text and metadata in a snapshot, and the filters over them."""

from collections.abc import Sequence
from typing import Any
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int64

from indexer.content_hash import content_hash
from models.facets import FACETS, NO_FACET, matching_facets
from models.types import Filters, Paper, Sentence

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("title", pa.string(), nullable=False),
        pa.field("abstract", pa.string(), nullable=False),
        pa.field("starts", pa.list_(pa.int32()), nullable=False),
        pa.field("ends", pa.list_(pa.int32()), nullable=False),
        pa.field("facets", pa.list_(pa.int8()), nullable=False),
        pa.field("year", pa.int16()),
        pa.field("venue", pa.string()),
        pa.field("authors", pa.list_(pa.string()), nullable=False),
        pa.field("url", pa.string()),
        pa.field("doi", pa.string()),
        pa.field("fields", pa.list_(pa.string()), nullable=False),
        # Of the paper as it was given, before facets were tagged: a changed paper has another hash.
        pa.field("content_hash", pa.string(), nullable=False),
    ]
)

_TEXT = ("abstract", "starts", "ends", "facets")
_NO_TEXT = dict(zip(_TEXT, ("", (), (), ()), strict=True))
_OF_PAPER = tuple(name for name in SCHEMA.names if name != "content_hash")


def papers_to_table(papers: Sequence[Paper]) -> pa.Table:
    """Return the columns of ``papers``, in order."""
    return pa.Table.from_pylist([_record(paper) for paper in papers], schema=SCHEMA)


def _record(paper: Paper) -> dict[str, Any]:
    return {
        "id": paper.id,
        "title": paper.title,
        "abstract": paper.abstract,
        "starts": [sentence.start for sentence in paper.sentences],
        "ends": [sentence.end for sentence in paper.sentences],
        "facets": [FACETS.index(s.facet) if s.facet else NO_FACET for s in paper.sentences],
        "year": paper.year,
        "venue": paper.venue,
        "authors": list(paper.authors),
        "url": paper.url,
        "doi": paper.doi,
        "fields": list(paper.fields),
        "content_hash": content_hash(paper),
    }


class Columns:
    """The columns of a file of papers, in the record batches that they were written in.

    Rows are taken batch by batch: a table would join a column first, which copies all of it for a few rows,
    and fails if its text exceeds 2 GiB.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._batches = table.to_batches()
        self._bounds = np.cumsum([0, *(len(batch) for batch in self._batches)])
        self._of_paper = {name: table[name] for name in _OF_PAPER}  # looking up a column takes time
        self._of_heading = {name: self._of_paper[name] for name in _OF_PAPER if name not in _TEXT}

    def take(self, positions: Int64[np.ndarray, " n"], columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows at ``positions``, in that order, with all columns or those named."""
        schema = self.table.schema
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        numbers = np.searchsorted(self._bounds, positions, side="right") - 1  # of the batches
        runs = np.split(np.arange(len(positions)), np.flatnonzero(np.diff(numbers)) + 1)
        taken = [
            self._batches[number].select(schema.names).take(pa.array(positions[run] - self._bounds[number]))
            for run in runs
            if len(run)
            for number in (int(numbers[run[0]]),)
        ]
        return pa.Table.from_batches(taken, schema=schema)

    def paper(self, position: int, *, text: bool = True) -> Paper:
        """Return the paper in row ``position``; without ``text``, its abstract and sentences are empty."""
        # Reading value by value takes half the time of cutting out the row first.
        columns = self._of_paper if text else self._of_heading
        record = _NO_TEXT | {name: column[position].as_py() for name, column in columns.items()}
        abstract = record["abstract"]
        sentences = tuple(
            Sentence(abstract[start:end], start, end, None if code == NO_FACET else FACETS[code])
            for start, end, code in zip(record["starts"], record["ends"], record["facets"], strict=True)
        )
        return Paper(
            id=record["id"],
            title=record["title"],
            abstract=abstract,
            sentences=sentences,
            year=record["year"],
            venue=record["venue"],
            authors=tuple(record["authors"]),
            url=record["url"],
            doi=record["doi"],
            fields=tuple(record["fields"]),
        )


def allowed_papers(table: pa.Table, filters: Filters) -> Bool[np.ndarray, " n_papers"]:
    """Return which rows of ``table`` pass ``filters``, ignoring filters on ids, which a segment looks up.

    Names of venues, fields and authors match in any case.
    """
    allowed = np.ones(len(table), dtype=bool)
    if filters.year_from is not None:
        allowed &= _mask(pc.greater_equal(table["year"], filters.year_from))
    if filters.year_to is not None:
        allowed &= _mask(pc.less_equal(table["year"], filters.year_to))
    if filters.venues:
        allowed &= _mask(_matches(table["venue"], filters.venues))
    for column, names in (("fields", filters.fields), ("authors", filters.authors)):
        if names:
            lists = table[column].combine_chunks()
            allowed &= _holding(lists, _mask(_matches(pc.list_flatten(lists), names)))
    if filters.has_facets:
        lists = table["facets"].combine_chunks()
        codes = np.asarray(pc.list_flatten(lists))
        for facet in filters.has_facets:
            wanted = [FACETS.index(match) for match in matching_facets(facet)]
            allowed &= _holding(lists, np.isin(codes, wanted))
    return allowed


def _holding(lists: Any, hits: Bool[np.ndarray, " n"]) -> Bool[np.ndarray, " n_papers"]:
    """Return which ``lists`` contain a hit; ``hits`` has a flag per value, over all lists in order."""
    holding = np.zeros(len(lists), dtype=bool)
    holding[np.asarray(pc.list_parent_indices(lists))[hits]] = True
    return holding


def _matches(column: Any, names: Sequence[str]) -> Any:
    # Names are lowered by Arrow, like the column: for some letters Python has another lower case. Stored
    # names may have composed accents or not.
    forms = [normalize(form, name) for form in ("NFC", "NFD") for name in names]
    wanted = pa.array([*names, *forms], pa.string())
    return pc.is_in(_without_case(column), value_set=_without_case(wanted))


def _without_case(names: Any) -> Any:
    # Capitals are usually written without ß: STRASSE is Straße.
    return pc.replace_substring(pc.utf8_lower(names), "ß", "ss")


def _mask(flags: Any) -> Bool[np.ndarray, " n"]:
    return np.asarray(pc.fill_null(flags, False), dtype=bool)
