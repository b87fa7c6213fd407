"""How much an address of the page may give: every link of the page repeats what its address gives."""

from collections.abc import Sequence
from typing import Final

from starlette.datastructures import QueryParams

from indexer.corpus.rows import MAX_SENTENCES
from models.errors import QueryError

MAX_FURTHER_PAPERS: Final = 50  # to be like and to be unlike, together
MAX_NAMES: Final = 20  # of venues, and of fields
MAX_NAME_CHARS: Final = 4_000  # of all ids of papers and all names together
# What is counted together, by the names of parameters, how many of them are taken, and what they are.
_MOST: Final = (
    (("like", "not", "add"), MAX_FURTHER_PAPERS, "further papers"),
    (("venue",), MAX_NAMES, "venues"),
    (("field",), MAX_NAMES, "fields"),
    (("s",), MAX_SENTENCES, "numbers of sentences"),
    (("u",), MAX_SENTENCES, "numbers of sentences to be unlike"),
)
_NAMES: Final = ("paper", "like", "not", "add", "venue", "field")
# Of a text that is somewhat too long the page still shows all, so that nothing pasted is lost.
MAX_SHOWN_CHARS: Final = 20_000
_TEXTS: Final = ("text", "title", "abstract", "cursor")


def expect_within_bounds(given: QueryParams) -> None:
    """Raises QueryError for an address that gives too much; what it gives is counted, not looked at."""
    for names, most, what in _MOST:
        if (n_given := len(_values(given, names))) > most:
            raise _too_much(f"{n_given:,} {what}", most)
    for read, most, what in ((_NAMES, MAX_NAME_CHARS, "ids and names"), (_TEXTS, MAX_SHOWN_CHARS, "text")):
        if (n_chars := sum(map(len, _values(given, read)))) > most:
            raise _too_much(f"{n_chars:,} characters of {what}", most)


def _values(given: QueryParams, names: Sequence[str]) -> list[str]:
    return [value for name in names for value in given.getlist(name) if value]


def _too_much(what: str, most: int) -> QueryError:
    return QueryError(
        f"The address gives {what}, and {most:,} are taken; leave some out, or ask with a program."
    )
