"""Makes keys for entries without a key that lasts."""

import re
from collections.abc import Sequence

from models.checksums import hash64

# The number of an entry in one export, as EndNote and Mendeley write it: another paper has it in the next.
_RECORD_NUMBER = re.compile(r"(?:ITEM-)?[0-9]+")


def lasting(key: str | None) -> str | None:
    """Return ``key``, or ``None`` if it only numbers the entries of one file."""
    return None if key and _RECORD_NUMBER.fullmatch(key.strip()) else key


def made_key(kind: str, title: object, year: str, authors: Sequence[str]) -> str | None:
    """Return ``kind:…``, a hash of title (case and spaces ignored), year and first author.

    Return ``None`` without a title.
    """
    if not isinstance(title, str) or not title:
        return None
    named = "\n".join([" ".join(title.casefold().split()), year, *authors[:1]])
    return f"{kind}:{hash64(named):016x}"
