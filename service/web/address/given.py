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
MAX_NAMES: Final = 20  # of venues, of fields, and of authors
MAX_NAME_CHARS: Final = 4_000  # of all ids of papers and all names together
# What is counted together, by the names of parameters, how many of them are taken, and what they are.
_MOST: Final = (
    (("like", "not", "add"), MAX_FURTHER_PAPERS, "further papers"),
    (("venue",), MAX_NAMES, "venues"),
    (("field",), MAX_NAMES, "fields"),
    (("author",), MAX_NAMES, "authors"),
    (("s",), MAX_SENTENCES, "numbers of sentences"),
    (("u",), MAX_SENTENCES, "numbers of sentences to be unlike"),
)
_NAMES: Final = ("paper", "like", "not", "add", "in", "venue", "field", "author")
# Of a text that is somewhat too long the page still shows all, so that nothing pasted is lost.
MAX_SHOWN_CHARS: Final = 20_000
_TEXTS: Final = ("text", "title", "abstract", "cursor")
_DECIMAL: Final = re.compile(r"[0-9]{1,7}(\.[0-9]{1,3})?", re.ASCII)
_WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_Choice = TypeVar("_Choice", bound=StrEnum)


def expect_within_bounds(given: QueryParams) -> None:
    """Raises QueryError for an address that gives too much; what it gives is counted, not looked at."""
    for names, most, what in _MOST:
        if (n_given := len(_values(given, names))) > most:
            raise _too_much(f"{n_given:,} {what}", most)
    for read, most, what in ((_NAMES, MAX_NAME_CHARS, "ids and names"), (_TEXTS, MAX_SHOWN_CHARS, "text")):
        if (n_chars := sum(map(len, _values(given, read)))) > most:
            raise _too_much(f"{n_chars:,} characters of {what}", most)


def expect_in_order(first: int | None, last: int | None) -> None:
    """Raises QueryError for years of which the first comes after the last."""
    if first is not None and last is not None and first > last:
        raise QueryError(f"The first year, {first}, is after the last, {last}; change one of them.")


def all_of(given: QueryParams, name: str) -> tuple[str, ...]:
    """All values of ``name``, each once; empty ones, which forms send, are none."""
    return tuple(dict.fromkeys(value for value in map(str.strip, given.getlist(name)) if value))


def one_of(given: QueryParams, name: str) -> str:
    """The value of ``name``, empty where there is none; raises QueryError where there are several."""
    values = all_of(given, name)
    if len(values) > 1:
        raise QueryError(f"The address gives {name} {len(values)} times; give it once.")
    return values[0] if values else ""


def number_of(given: QueryParams, name: str) -> int | None:
    """The value of ``name`` as a whole number; raises QueryError where it is none."""
    value = one_of(given, name)
    return _number(value, name) if value else None


def numbers_of(given: QueryParams, name: str) -> tuple[int, ...]:
    """All values of ``name`` as whole numbers, ascending; raises QueryError where one is none."""
    return tuple(sorted({_number(each, name) for each in all_of(given, name)}))


def weight_of(given: QueryParams, name: str) -> float | None:
    """The value of ``name`` as a number of thousandths; raises QueryError where it is none."""
    value = one_of(given, name)
    if value and not _DECIMAL.fullmatch(value):
        raise QueryError(f"The address has {name}={value[:40]}; expected a number such as 0 or 0.8.")
    return float(value) if value else None


def choice_of(given: QueryParams, name: str, default: _Choice) -> _Choice:
    """The value of ``name`` as one of those that ``default`` is of; raises QueryError where it is none."""
    value = one_of(given, name)
    return chosen(type(default), value, name) if value else default


def facets_of(given: QueryParams, name: str) -> tuple[Facet, ...]:
    """All values of ``name`` as facets; raises QueryError where one is none."""
    return tuple(dict.fromkeys(chosen(Facet, each, name) for each in all_of(given, name)))


def chosen(choices: type[_Choice], value: str, name: str) -> _Choice:
    """The one of ``choices`` that ``value`` names; raises QueryError where it names none."""
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
