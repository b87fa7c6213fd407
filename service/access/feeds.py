"""Addresses of feeds: tokens that nobody can guess, and that are checked without reading the database."""

import base64
import struct
from typing import Final, NamedTuple

from models.errors import SavedQueryNotFoundError
from service.secret import Secret, Signer

_ID_BYTES: Final = 16
_CONTENT: Final = struct.Struct(f">{_ID_BYTES}sI")  # the id of the saved query, and the number of its feed
_SIGNATURE_BYTES: Final = 19  # 39 bytes in all, a multiple of 3: no padding


class FeedOf(NamedTuple):
    """The feed that an address names: the id of a saved query, and the number of its feed."""

    query_id: str
    number: int


class FeedTokens:
    """Writer and reader of the tokens of one service; every process with the same secret reads them alike.

    ``lasting`` says whether other processes, and this one after a restart, have that secret.
    """

    def __init__(self, secret: Secret) -> None:
        self.lasting = secret.shared
        self._signer = Signer(secret, b"akin feed", _CONTENT, _SIGNATURE_BYTES)

    def write(self, feed: FeedOf) -> str:
        """Return the token of a feed."""
        return self._signer.write(base64.urlsafe_b64decode(f"{feed.query_id}=="), feed.number)

    def read(self, token: str) -> FeedOf:
        """Return the feed of a token; raises SavedQueryNotFoundError if the token was not made here."""
        fields = self._signer.read(token)
        if fields is None:
            raise SavedQueryNotFoundError(
                "There is no such feed; give its full address, or create a new one."
            )
        query_id, number = fields
        return FeedOf(base64.urlsafe_b64encode(query_id).decode().rstrip("="), number)
