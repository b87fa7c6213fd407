"""Reads unarXive (JSON lines of full texts with arXiv's ``metadata``, ``paper_id, abstract, body_text``)."""

from collections.abc import Iterator

from indexer.corpus.formats.arxiv import raw_paper
from indexer.corpus.records import JsonObject, first_record, json_rows
from indexer.corpus.rows import RawPaper, Row, at
from indexer.corpus.source import Lines


class UnarxiveReader:
    """The reader of unarXive: ids become ``arxiv:2212.11867``.

    The abstract is that of the metadata, else that of the parsed source.
    """

    needs_abstract = True

    def recognises(self, head: str) -> bool:
        """Return whether the first record has a ``paper_id`` and a ``metadata`` object of arXiv."""
        record = first_record(head)
        return "paper_id" in record and isinstance(at(record, "metadata", "categories"), str)

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each record."""
        return json_rows(lines, _raw)


def _raw(record: JsonObject) -> RawPaper:
    metadata = record.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return raw_paper(
        {
            **metadata,
            "id": metadata.get("id") or record.get("paper_id"),
            "abstract": metadata.get("abstract") or at(record, "abstract", "text"),
        }
    )
