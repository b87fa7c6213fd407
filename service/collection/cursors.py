"""Cursors: opaque, signed positions in a ranked list, so that pages fit together.

A cursor holds the generation, a digest of the search and a place in its list, but not the search itself: a
client sends the same body again with the cursor in it.
"""

import struct
from dataclasses import replace

from models.errors import CursorError, CursorExpiredError
from service.cache.digests import digest_of
from service.search.engine import SearchEngine
from service.search.lookup import Listing
from service.search.query import FIRST_PAGE, Page, SearchAnswer, SearchQuery
from service.secret import Secret, Signer

# Raised whenever the same search would rank otherwise than before, so that no list goes on in another order.
_VERSION = 5
_DIGEST_BYTES = 16
# Version, digests of the generation and of the search, offset and depth.
_CONTENT = struct.Struct(f">B{_DIGEST_BYTES}s{_DIGEST_BYTES}sII")
_SIGNATURE_BYTES = 16  # 57 bytes in all, a multiple of 3: no padding

# What is answered page by page.
Paged = SearchQuery | Listing

_REMEDY = "send next_cursor unchanged, with the same body as before, or start again without a cursor"


class Cursors:
    """Makes and reads the cursors of one service; every process with the same secret reads them alike."""

    def __init__(self, secret: Secret) -> None:
        self._signer = Signer(secret, b"akin cursor", _CONTENT, _SIGNATURE_BYTES)

    def write(self, page: Page, query: Paged, generation: bytes) -> str:
        """The cursor of ``page`` in the list that ``query`` has in the generation with this digest."""
        return self._signer.write(_VERSION, generation, _digest(query), page.offset, page.depth)

    def following(self, page: Page | None, query: Paged, engine: SearchEngine) -> str | None:
        """The cursor of the page after the one that was answered; ``None`` at the end of the list."""
        return None if page is None else self.write(page, query, engine.digest)

    def answered(self, query: SearchQuery, engine: SearchEngine) -> tuple[SearchAnswer, str | None]:
        """The page of its list that ``query`` asks for, and the cursor of the next one.

        Raises what ``SearchEngine.search`` raises.
        """
        answer = engine.search(query)
        return answer, self.following(answer.next_page, query, engine)

    def generation(self, cursor: str) -> bytes:
        """The digest of the generation that the list of ``cursor`` is in, whatever its search.

        Raises CursorError for one that was not made here.
        """
        return self._content(cursor)[1]

    def read(self, cursor: str, query: Paged) -> tuple[Page, bytes]:
        """The page that ``cursor`` stands for, and the digest of the generation that its list is in.

        ``limit`` and ``page`` of ``query`` do not matter. Raises CursorError for one that was not made here
        or for another search, CursorExpiredError for one of another version of Akin.
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
    """The search but for where in its list a client stands."""
    return digest_of(replace(query, limit=0, page=FIRST_PAGE))[:_DIGEST_BYTES]
