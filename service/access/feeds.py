"""Addresses of feeds: tokens that nobody can guess, and that are checked without a look into the database."""

import base64
import hmac
import struct
from typing import Final, NamedTuple

from models.errors import SavedQueryNotFoundError
from service.secret import Secret

_ID_BYTES: Final = 16
_CONTENT: Final = struct.Struct(f">{_ID_BYTES}sI")  # of which saved query, and the number of its feed
_SIGNATURE_BYTES: Final = 19  # 39 bytes in all, a multiple of 3: no padding


class FeedOf(NamedTuple):
    """What the address of a feed names: a saved query, by its id, and which of the feeds made of it."""

    query_id: str
    number: int


class FeedTokens:
    """Makes and reads the tokens of one service; every process with the same secret reads them alike."""

    def __init__(self, secret: Secret) -> None:
        self._key = hmac.digest(secret.key, b"akin feed", "sha256")

    def write(self, feed: FeedOf) -> str:
        """The token of a feed."""
        content = _CONTENT.pack(base64.urlsafe_b64decode(f"{feed.query_id}=="), feed.number)
        return base64.urlsafe_b64encode(content + self._signature(content)).decode()

    def read(self, token: str) -> FeedOf:
        """The feed that a token was made for; raises SavedQueryNotFoundError where it was not made here."""
        try:
            signed = base64.urlsafe_b64decode(token)
        except ValueError:  # not base64, or not ASCII
            signed = b""
        content, signature = signed[: _CONTENT.size], signed[_CONTENT.size :]
        # Base64 reads several texts as the same bytes; only one of them was given out.
        good = base64.urlsafe_b64encode(signed).decode() == token
        if not good or not hmac.compare_digest(signature, self._signature(content)):
            raise SavedQueryNotFoundError(
                "There is no such feed; give its full address, or create a new one."
            )
        query_id, number = _CONTENT.unpack(content)
        return FeedOf(base64.urlsafe_b64encode(query_id).decode().rstrip("="), number)

    def _signature(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, "sha256")[:_SIGNATURE_BYTES]
