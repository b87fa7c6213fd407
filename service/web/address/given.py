"""The parameters of a page's address, and their limits."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, TypeVar

from starlette.datastructures import QueryParams

from indexer.corpus.rows import MAX_SENTENCES
from models.errors import QueryError
from models.types import Facet

MAX_FURTHER_PAPERS: Final = 50  # to be like and to be unlike, together
FURTHER: Final = ("like", "not", "add")  # the parameters that name them
MAX_NAMES: Final = 20  # of venues, of fields, and of authors
MAX_NAME_CHARS: Final = 4_000  # of all ids of papers and all names together
# Parameters that are counted together, how many values they may have, and the word for them in messages.
_LIMITS: Final = (
    (FURTHER, MAX_FURTHER_PAPERS, "further papers"),
    (("venue",), MAX_NAMES, "venues"),
    (("field",), MAX_NAMES, "fields"),
    (("author",), MAX_NAMES, "authors"),
    (("s",), MAX_SENTENCES, "numbers of sentences"),
    (("u",), MAX_SENTENCES, "numbers of sentences to be unlike"),
)
_NAMES: Final = ("paper", "like", "not", "add", "in", "venue", "field", "author")
# A text that is too long to search with is still shown in full, so that nothing pasted is lost: any that a
# request line of 64 kB can hold.
MAX_SHOWN_CHARS: Final = 60_000
_TEXTS: Final = ("text", "title", "abstract", "cursor")
_DECIMAL: Final = re.compile(r"[0-9]{1,7}(\.[0-9]{1,3})?", re.ASCII)
_WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_Choice = TypeVar("_Choice", bound=StrEnum)


def expect_within_bounds(given: QueryParams) -> None:
    """Raise QueryError if an address has too many values or characters; the values are not parsed."""
    for names, most, what in _LIMITS:
        if (n_given := len(_values(given, names))) > most:
            raise _too_much(f"{n_given:,} {what}", most)
    for read, most, what in ((_NAMES, MAX_NAME_CHARS, "ids and names"), (_TEXTS, MAX_SHOWN_CHARS, "text")):
        if (n_chars := sum(map(len, _values(given, read)))) > most:
            raise _too_much(f"{n_chars:,} characters of {what}", most)


def all_of(given: QueryParams, name: str) -> tuple[str, ...]:
    """Return the distinct values of ``name``, without the empty ones that forms send."""
    return tuple(dict.fromkeys(value for value in map(str.strip, given.getlist(name)) if value))


def one_of(given: QueryParams, name: str) -> str:
    """Return the value of ``name``, or "" if there is none; raises QueryError if there are several."""
    values = all_of(given, name)
    if len(values) > 1:
        raise QueryError(f"The address gives {name} {len(values)} times; give it once.")
    return values[0] if values else ""


def number_of(given: QueryParams, name: str) -> int | None:
    """Return the value of ``name`` as an integer, or ``None``; raises QueryError if it is not an integer."""
    value = one_of(given, name)
    return _number(value, name) if value else None


def numbers_of(given: QueryParams, name: str) -> tuple[int, ...]:
    """Return the values of ``name`` as ascending integers; raises QueryError if one is not an integer."""
    return tuple(sorted({_number(each, name) for each in all_of(given, name)}))


def weight_of(given: QueryParams, name: str) -> float | None:
    """Return the value of ``name``, a number with at most three decimals, or ``None``; raises QueryError."""
    value = one_of(given, name)
    if value and not _DECIMAL.fullmatch(value):
        raise QueryError(f"The address has {name}={value[:40]}; expected a number such as 0 or 0.8.")
    return float(value) if value else None


def choice_of(given: QueryParams, name: str, default: _Choice) -> _Choice:
    """Return the value of ``name`` as a member of ``default``'s enum, or ``default``; raises QueryError."""
    value = one_of(given, name)
    return chosen(type(default), value, name) if value else default


def facets_of(given: QueryParams, name: str) -> tuple[Facet, ...]:
    """Return the distinct values of ``name`` as facets; raises QueryError if one is not a facet."""
    return tuple(dict.fromkeys(chosen(Facet, each, name) for each in all_of(given, name)))


def chosen(choices: type[_Choice], value: str, name: str) -> _Choice:
    """Return the member of ``choices`` with this ``value``; raises QueryError if there is none."""
    try:
        return choices(value)
    except ValueError as error:
        known = ", ".join(choices)
        raise QueryError(f"The address has {name}={value[:40]}; it may be one of {known}.") from error


def _number(value: str, name: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(value):
        raise QueryError(f"The address has {name}={value[:40]}; a whole number is expected there.")
    return int(value)


def _values(given: QueryParams, names: Sequence[str]) -> list[str]:
    return [value for name in names for value in given.getlist(name) if value]


def _too_much(what: str, most: int) -> QueryError:
    return QueryError(f"The link has {what}, and {most:,} are allowed; remove some, or use the API.")
