"""Authors by a part of their names."""

from typing import Any, Final
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from indexer.snapshot.snapshot import Snapshot
from models.counts import counted
from models.types import Filters
from service.context import check_deadline
from service.resolve.titles import fold

_MOST_READ: Final = 3  # names that are looked for, as each is held against all authors
_MOST_MEANT: Final = 3
_MOST_CHARS: Final = 80  # of a name that is told
_KEPT: WeakKeyDictionary[Snapshot, tuple[Any, Any]] = WeakKeyDictionary()


def authors_called(snapshot: Snapshot, given: str) -> list[str]:
    """The author called so, or else those in whose names each word of ``given`` begins a word, sorted."""
    check_deadline()
    if _is_known(snapshot, given):
        return [given]
    if not len(snapshot):
        return []
    (words,) = (text.split() for text in fold(pa.array([given])).to_pylist())
    names, folded = _names_of(snapshot)
    for word in words:
        holding = pc.match_substring(folded, word)
        names, folded = names.filter(holding), folded.filter(holding)
    return sorted(
        name
        for name, text in zip(names.to_pylist(), folded.to_pylist(), strict=True)
        if words and all(any(part.startswith(word) for part in text.split()) for word in words)
    )


def _names_of(snapshot: Snapshot) -> tuple[Any, Any]:
    """Every author of a snapshot, and the same folded; kept as long as the snapshot is."""
    found = _KEPT.get(snapshot)
    if found is None:
        names = pc.unique(pc.list_flatten(snapshot.column("authors")))
        found = _KEPT[snapshot] = (names, fold(names))
    return found


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
