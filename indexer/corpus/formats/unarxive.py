"""unarXive (JSON lines of full texts: ``paper_id, metadata, abstract, body_text``, the metadata arXiv's)."""

from collections.abc import Iterator

from indexer.corpus.formats.arxiv import raw_paper
from indexer.corpus.records import JsonObject, first_record, json_rows
from indexer.corpus.rows import RawPaper, Row, at
from indexer.corpus.source import Lines


class UnarxiveReader:
    """Ids become ``arxiv:2212.11867``; the abstract is the metadata's, else that of the parsed source."""

    needs_abstract = True

    def recognises(self, head: str) -> bool:
        """A ``paper_id`` beside a ``metadata`` object with an arXiv record."""
        record = first_record(head)
        return "paper_id" in record and isinstance(at(record, "metadata", "categories"), str)

    def rows(self, lines: Lines) -> Iterator[Row]:
        """One row for each line."""
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
