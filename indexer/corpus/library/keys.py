"""Makes keys for entries without one."""

from collections.abc import Sequence

from models.checksums import hash64


def made_key(kind: str, title: object, year: str, authors: Sequence[str]) -> str | None:
    """Return ``kind:…``, a hash of title (case and spaces ignored), year and first author.

    Return ``None`` without a title.
    """
    if not isinstance(title, str) or not title:
        return None
    named = "\n".join([" ".join(title.casefold().split()), year, *authors[:1]])
    return f"{kind}:{hash64(named):016x}"
