"""Addresses of feeds: tokens that nobody can guess, and that are checked without a look into the database."""

import base64
import struct
from typing import Final, NamedTuple

from models.errors import SavedQueryNotFoundError
from service.secret import Secret, Signer

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
        self._signer = Signer(secret, b"akin feed", _CONTENT, _SIGNATURE_BYTES)

    def write(self, feed: FeedOf) -> str:
        """The token of a feed."""
        return self._signer.write(base64.urlsafe_b64decode(f"{feed.query_id}=="), feed.number)

    def read(self, token: str) -> FeedOf:
        """The feed that a token was made for; raises SavedQueryNotFoundError where it was not made here."""
        fields = self._signer.read(token)
        if fields is None:
            raise SavedQueryNotFoundError(
                "There is no such feed; give its full address, or create a new one."
            )
        query_id, number = fields
        return FeedOf(base64.urlsafe_b64encode(query_id).decode().rstrip("="), number)
