"""Search for authors, venues and fields by a part of their names."""

from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from indexer.snapshot.snapshot import Snapshot
from models.counts import counted
from models.types import Filters
from service.context import check_deadline
from service.resolve.titles import fold

# The fields of ``Filters`` that are names.
FilterKind = Literal["authors", "venues", "fields"]
FILTER_KINDS: Final[tuple[FilterKind, ...]] = ("authors", "venues", "fields")
# The singular of each field, for messages.
ONE: Final[dict[FilterKind, str]] = {"authors": "author", "venues": "venue", "fields": "field"}
_COLUMNS: Final[dict[FilterKind, str]] = {"authors": "authors", "venues": "venue", "fields": "fields"}
_MAX_READ: Final = 3  # names that are looked for, as each is compared with all names
_MAX_SUGGESTED: Final = 3
_MAX_CHARS: Final = 80  # of a name in a message
_KEPT: WeakKeyDictionary[Snapshot, dict[FilterKind, tuple[Any, Any]]] = WeakKeyDictionary()


def names_called(snapshot: Snapshot, kind: FilterKind, given: str) -> list[str]:
    """Return ``given`` if it exists, else the sorted names where each of its words begins a word."""
    check_deadline()
    if any_known(snapshot, kind, (given,)):
        return [given]
    if not len(snapshot):
        return []
    (words,) = (text.split() for text in fold(pa.array([given])).to_pylist())
    names, folded = _names_of(snapshot, kind)
    for word in words:
        holding = pc.match_substring(folded, word)
        names, folded = names.filter(holding), folded.filter(holding)
    return sorted(
        name
        for name, text in zip(names.to_pylist(), folded.to_pylist(), strict=True)
        if words and all(any(part.startswith(word) for part in text.split()) for word in words)
    )


def any_known(snapshot: Snapshot, kind: FilterKind, names: tuple[str, ...]) -> bool:
    """Return whether a paper of the collection has one of these authors, venues or fields."""
    only: dict[str, Any] = {kind: names}
    return bool(snapshot.allowed_papers(Filters(**only)).any())


def no_such_name(snapshot: Snapshot, filters: Filters) -> str:
    """Return a message for filters with only unknown names of a kind, with similar names; otherwise empty."""
    return next(filter(None, (_no_such(snapshot, kind, getattr(filters, kind)) for kind in FILTER_KINDS)), "")


def _no_such(snapshot: Snapshot, kind: FilterKind, names: tuple[str, ...]) -> str:
    if not names or any_known(snapshot, kind, names):
        return ""
    called = [names_called(snapshot, kind, given) for given in names[:_MAX_READ]]
    meant = list(dict.fromkeys(name for found in called for name in found))
    said = f"No paper matches the filters, because no {ONE[kind]} is called exactly {names[0][:_MAX_CHARS]}; "
    if not meant:
        return f"{said}give the full name of another, or leave it out."
    some = ", ".join(name[:_MAX_CHARS] for name in meant[:_MAX_SUGGESTED])
    n_more = len(meant) - _MAX_SUGGESTED
    more = f" or {counted(n_more, 'other')}" if n_more > 0 else ""
    return f"{said}did you mean {some}{more}? Give full names."


def _names_of(snapshot: Snapshot, kind: FilterKind) -> tuple[Any, Any]:
    """Return all names of one kind in a snapshot, and the folded names; kept as long as the snapshot."""
    kept = _KEPT.setdefault(snapshot, {})
    if kind not in kept:
        column = snapshot.column(_COLUMNS[kind])
        each = pc.list_flatten(column) if pa.types.is_list(column.type) else pc.drop_null(column)
        names = pc.unique(each)
        kept[kind] = (names, fold(names))
    return kept[kind]
