"""Reads our own JSON, in lines or as a list.

``id`` (or ``doi``)``, title, abstract`` and any of ``year, venue, authors, url, doi, fields, facets``.
"""

from collections.abc import Iterator

from indexer.corpus.library.csl import is_csl
from indexer.corpus.library.names import id_by_doi
from indexer.corpus.records import JsonObject, first_record, json_rows
from indexer.corpus.rows import RawPaper, Row
from indexer.corpus.source import Lines

_KEYS = ("id", "title", "abstract", "year", "venue", "authors", "url", "doi", "fields", "facets")
# Keys that other formats have in addition to an id: a file with one of them has another format.
_FOREIGN_KEYS = frozenset({"abstract_inverted_index", "authors_parsed", "versions", "corpusid", "paper_id"})


class JsonlReader:
    """The reader of our JSON: ``abstract`` is a text or a list of sentences.

    ``facets`` has a label (or null) for each sentence. Without an id, a paper gets one by its DOI. Other keys
    are ignored.
    """

    needs_abstract = True

    def recognises(self, head: str) -> bool:
        """Return whether the first record has an id or DOI, title or abstract, and no key of another format.

        With a DOI instead of an id, it needs both title and abstract.
        """
        keys = first_record(head).keys()
        is_named = "id" in keys and ("title" in keys or "abstract" in keys)
        is_own = (is_named or {"doi", "title", "abstract"} <= keys) and not keys & _FOREIGN_KEYS
        return is_own and not is_csl(head)

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each object."""
        return json_rows(lines, _raw)


def _raw(record: JsonObject) -> RawPaper:
    values = {name: record.get(name) for name in _KEYS}
    if values["id"] is None:
        values["id"] = id_by_doi(values["doi"])
    return RawPaper(**values)
