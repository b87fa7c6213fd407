"""The formats of answers, chosen by the request's Accept header (RFC 9110, section 12.5.1)."""

from enum import StrEnum
from typing import Final

from models.errors import AnswerFormatError


class Format(StrEnum):
    """A media type of papers; if a client accepts several equally, the first one offered is used."""

    JSON = "application/json"
    CSV = "text/csv"
    BIBTEX = "application/x-bibtex"
    RIS = "application/x-research-info-systems"
    NDJSON = "application/x-ndjson"
    PARQUET = "application/vnd.apache.parquet"


LIST_FORMATS = (Format.JSON, Format.CSV, Format.BIBTEX, Format.RIS, Format.NDJSON)
BATCH_FORMATS = (Format.NDJSON, Format.CSV, Format.PARQUET)
PAPER_FORMATS = (Format.JSON, Format.BIBTEX, Format.RIS)
_HTML: Final = ("text/html", "application/xhtml+xml")
_JSON: Final = ("application/json", "application/problem+json")
# Browsers send 200 characters. The event loop reads them, and 100,000 would hold it up for 50 ms.
_MAX_READ_CHARS: Final = 4_096
# The suffixes of addresses that select a format: GET /v1/papers/{id}.bib.
SUFFIXES = {".bib": Format.BIBTEX, ".ris": Format.RIS}


def negotiate(accept: str, offered: tuple[Format, ...]) -> Format:
    """Return the format of ``offered`` that ``accept`` prefers; the first if ``accept`` is empty.

    Raises AnswerFormatError if ``accept`` allows none of them.
    """
    ranges = _media_ranges(accept)
    if not ranges:
        return offered[0]
    best = max(offered, key=lambda form: _quality(form, ranges))  # the first of equals
    if _quality(best, ranges) == 0:
        raise AnswerFormatError(
            f"The Accept header allows no format of this response; it is available as {', '.join(offered)}. "
            "Name one of them, or */*."
        )
    return best


def wants_page(accept: str) -> bool:
    """Return whether ``accept`` is that of a browser showing a page: it names HTML and prefers it to JSON."""
    ranges = _media_ranges(accept)
    liked = {kind: max((q for name, q in ranges if name in kind), default=0.0) for kind in (_HTML, _JSON)}
    return liked[_HTML] > liked[_JSON]


def _media_ranges(accept: str) -> list[tuple[str, float]]:
    """Return the media ranges of a header with their qualities; of a very long one, only the first."""
    if len(accept) > _MAX_READ_CHARS:
        accept = accept[:_MAX_READ_CHARS].rpartition(",")[0]
    return [_media_range(part) for part in accept.lower().split(",") if part.strip()]


def _media_range(part: str) -> tuple[str, float]:
    """Return a media range and its quality, from 0 to 1; 0 if the quality cannot be read."""
    name, *parameters = (piece.strip() for piece in part.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                quality = float(value)
            except ValueError:
                return name, 0.0
            return name, quality if 0 <= quality <= 1 else 0.0
    return name, 1.0


def _quality(form: Format, ranges: list[tuple[str, float]]) -> float:
    """Return the quality of the most specific range that covers ``form``; 0 if none covers it."""
    for covering in (form.value, f"{form.partition('/')[0]}/*", "*/*"):
        given = [quality for name, quality in ranges if name == covering]
        if given:
            return max(given)
    return 0.0
