"""Authors by a part of their names."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from indexer.snapshot.snapshot import Snapshot
from models.counts import counted
from models.types import Filters
from service.resolve.titles import fold

_MOST_READ: Final = 3  # names that are looked for, as each is held against all authors
_MOST_MEANT: Final = 3
_MOST_CHARS: Final = 80  # of a name that is told


def authors_called(snapshot: Snapshot, given: str) -> list[str]:
    """The author called so, or else those in whose names each word of ``given`` begins a word, sorted."""
    if _is_known(snapshot, given):
        return [given]
    (words,) = (text.split() for text in fold(pa.array([given])).to_pylist())
    names = pc.unique(pc.list_flatten(snapshot.column("authors")))
    folded = fold(names)
    for word in words:
        holding = pc.match_substring(folded, word)
        names, folded = names.filter(holding), folded.filter(holding)
    return sorted(
        name
        for name, text in zip(names.to_pylist(), folded.to_pylist(), strict=True)
        if words and all(any(part.startswith(word) for part in text.split()) for word in words)
    )


def no_such_author(snapshot: Snapshot, filters: Filters) -> str:
    """Why no paper passes filters whose authors nobody is called, and who may be meant; else empty."""
    if not filters.authors or any(_is_known(snapshot, given) for given in filters.authors):
        return ""
    called = [authors_called(snapshot, given) for given in filters.authors[:_MOST_READ]]
    meant = list(dict.fromkeys(name for names in called for name in names))
    said = (
        "No paper matches the filters, because no author is called exactly "
        f"{filters.authors[0][:_MOST_CHARS]}; "
    )
    if not meant:
        return f"{said}give the full name of another, or leave it out."
    some = ", ".join(name[:_MOST_CHARS] for name in meant[:_MOST_MEANT])
    n_more = len(meant) - _MOST_MEANT
    more = f" or {counted(n_more, 'other')}" if n_more > 0 else ""
    return f"{said}did you mean {some}{more}? Give full names."


def _is_known(snapshot: Snapshot, name: str) -> bool:
    return bool(snapshot.allowed_papers(Filters(authors=(name,))).any())
