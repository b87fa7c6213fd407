"""Cursors: opaque, signed positions in a ranked list, so that pages fit together.

A cursor holds the generation, a digest of the search and a place in its list, but not the search itself: a
client sends the same body again with the cursor in it.
"""

import struct
from dataclasses import replace
from typing import TypeVar

from models.errors import CursorError, CursorExpiredError
from service.cache.digests import digest_of
from service.collection.generations import Engines
from service.search.engine import SearchEngine
from service.search.lookup import Listing
from service.search.query import FIRST_PAGE, Page, SearchAnswer, SearchQuery
from service.secret import Secret, Signer

# Increased whenever the ranking of the same search changes, so that no list continues in another order.
_VERSION = 8
_DIGEST_BYTES = 16
# Version, digests of the generation and of the search, offset and depth.
_CONTENT = struct.Struct(f">B{_DIGEST_BYTES}s{_DIGEST_BYTES}sII")
_SIGNATURE_BYTES = 16  # 57 bytes in all, a multiple of 3: no padding

# Requests that are answered page by page.
Paged = SearchQuery | Listing
_Paged = TypeVar("_Paged", SearchQuery, Listing)

_REMEDY = "send next_cursor unchanged, with the same body as before, or start again without a cursor"


class Cursors:
    """Writer and reader of the cursors of a service; every process with the same secret reads them alike."""

    def __init__(self, secret: Secret) -> None:
        self._signer = Signer(secret, b"akin cursor", _CONTENT, _SIGNATURE_BYTES)

    def write(self, page: Page, query: Paged, generation: bytes) -> str:
        """Return the cursor of ``page`` in the list of ``query``, in the generation with this digest."""
        return self._signer.write(_VERSION, generation, _digest(query), page.offset, page.depth)

    def following(self, page: Page | None, query: Paged, engine: SearchEngine) -> str | None:
        """Return the cursor of ``page``, the one after the page answered; ``None`` at the end of the list."""
        return None if page is None else self.write(page, query, engine.digest)

    def answered(self, query: SearchQuery, engine: SearchEngine) -> tuple[SearchAnswer, str | None]:
        """Return the page that ``query`` requests, and the cursor of the next one.

        Raises what ``SearchEngine.search`` raises.
        """
        answer = engine.search(query)
        return answer, self.following(answer.next_page, query, engine)

    def at(
        self, cursor: str | None, query: _Paged, engine: SearchEngine, engines: Engines
    ) -> tuple[_Paged, SearchEngine]:
        """Return ``query`` at the page of ``cursor``, and the engine of its generation.

        Without a cursor, it is the first page, of ``engine``. Raises CursorError, CursorExpiredError.
        """
        if cursor is not None:
            page, generation = self.read(cursor, query)
            query, engine = replace(query, page=page), engines.at(generation)
        engines.pin(engine)
        return query, engine

    def generation(self, cursor: str) -> bytes:
        """Return the digest of the generation of ``cursor``, whatever its search.

        Raises CursorError for a cursor that was not made here.
        """
        return self._content(cursor)[1]

    def read(self, cursor: str, query: Paged) -> tuple[Page, bytes]:
        """Return the page of ``cursor``, and the digest of its generation.

        ``limit`` and ``page`` of ``query`` do not matter. Raises CursorError for a cursor that was not made
        here or is of another search, CursorExpiredError for one of another version of Akin.
        """
        version, generation, digest, offset, depth = self._content(cursor)
        if version == _VERSION and digest != _digest(query):
            raise CursorError(
                "The cursor belongs to another search: only cursor and limit may differ from the previous "
                f"request; {_REMEDY}."
            )
        if version != _VERSION:
            raise CursorExpiredError(
                "The cursor was made by another version of this service; start again without a cursor."
            )
        return Page(offset, depth), generation

    def _content(self, cursor: str) -> tuple[int, bytes, bytes, int, int]:
        fields = self._signer.read(cursor)
        if fields is None:
            raise CursorError(
                f"The cursor was altered, or made by a service with another secret (AKIN_SECRET); {_REMEDY}."
            )
        unpacked: tuple[int, bytes, bytes, int, int] = fields
        return unpacked


def _digest(query: Paged) -> bytes:
    """Return the digest of a search without its ``limit`` and ``page``."""
    return digest_of(replace(query, limit=0, page=FIRST_PAGE))[:_DIGEST_BYTES]
