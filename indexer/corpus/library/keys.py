"""Keys of entries that come without one."""

from collections.abc import Sequence

from models.checksums import hash64


def made_key(kind: str, title: object, year: str, authors: Sequence[str]) -> str | None:
    """``kind:…``, the same for the same title (whatever its case and spaces), year and first author."""
    if not isinstance(title, str) or not title:
        return None
    named = "\n".join([" ".join(title.casefold().split()), year, *authors[:1]])
    return f"{kind}:{hash64(named):016x}"
