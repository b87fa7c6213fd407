"""Reads OpenAlex works (JSON lines), whose abstracts are inverted indexes: ``{"word": [positions]}``."""

from collections.abc import Iterator

from indexer.corpus.records import JsonObject, first_record, json_rows
from indexer.corpus.rows import MAX_ABSTRACT_CHARS, RawPaper, Row, at, without_tags
from indexer.corpus.source import Lines
from models.errors import InputError

_ID_PREFIX = "https://openalex.org/"


class OpenAlexReader:
    """The reader of OpenAlex: ids become ``openalex:W2741809807``.

    Fields are those of the topics; in older files, the top concepts.
    """

    needs_abstract = False

    def recognises(self, head: str) -> bool:
        """Return whether the first record has an OpenAlex address as ``id``, or an inverted abstract."""
        record = first_record(head)
        return str(record.get("id")).startswith(f"{_ID_PREFIX}W") or "abstract_inverted_index" in record

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each line, or for each work in pages of results."""
        return json_rows(lines, _raw)


def _raw(record: JsonObject) -> RawPaper:
    address = record.get("id")
    if not isinstance(address, str) or not address:
        raise InputError("no id")
    location = record.get("primary_location")
    return RawPaper(
        id=f"openalex:{address.removeprefix(_ID_PREFIX)}",
        title=without_tags(record.get("title") or record.get("display_name")),
        abstract=without_tags(_abstract(record.get("abstract_inverted_index"))),
        year=record.get("publication_year"),
        venue=at(location, "source", "display_name") or at(record, "host_venue", "display_name"),
        authors=_each(record.get("authorships"), "author", "display_name"),
        url=at(location, "landing_page_url") or (address if address.startswith(_ID_PREFIX) else None),
        doi=record.get("doi"),
        fields=_each(record.get("topics"), "field", "display_name") or _concepts(record.get("concepts")),
    )


def _abstract(index: object) -> str | None:
    """Return the words of an inverted index in the order of their positions, or ``None`` without an index."""
    if index is None:
        return None
    if not isinstance(index, dict):
        raise InputError("abstract_inverted_index is not an object")
    words: list[tuple[int, str]] = []
    for word, positions in index.items():
        if not isinstance(positions, list) or not all(type(position) is int for position in positions):
            raise InputError(
                f"the positions of {word[:50]!r} in abstract_inverted_index are not a list of numbers"
            )
        words.extend((position, word) for position in positions)
        if len(words) > MAX_ABSTRACT_CHARS:
            raise InputError(f"the abstract has more than {MAX_ABSTRACT_CHARS:,} words")
    return " ".join(word for _, word in sorted(words))


def _each(given: object, *keys: str) -> list[object]:
    if not isinstance(given, list):
        return []
    return [name for entry in given if (name := at(entry, *keys)) is not None]


def _concepts(given: object) -> list[object]:
    return (
        _each([entry for entry in given if at(entry, "level") == 0], "display_name")
        if isinstance(given, list)
        else []
    )
