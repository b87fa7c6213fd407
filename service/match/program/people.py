"""Names: which a profile may have, and which profiles are those of a paper's authors."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from models.errors import InputError
from models.types import Paper

MAX_NAME_CHARS: Final = 300
_DIGITS: Final = "0123456789"
_SUFFIXES: Final = frozenset({"jr", "sr", "ii", "iii", "iv"})
# Letters that no decomposition takes apart.
_LETTERS: Final = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe"}
)
_MARK = re.compile("[\u0300-\u036f]")
_APOSTROPHE = re.compile("['’ʼ`´]")
_HYPHEN = re.compile("[-‐‑‒–]")

# First and last name; of one word alone, the first is empty.
_Spelling = tuple[str, str]


def check_name(name: str) -> None:
    """Raises InputError for what may not be the name of a profile: blank, too long or not printable."""
    # U+FFFD stands for bytes that were no UTF-8: two names would become one.
    if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable() or "\ufffd" in name:
        raise InputError(f"The name of a profile has 1 to {MAX_NAME_CHARS} printable characters.")


def one_form(name: str) -> str:
    """A name as it is kept: without space around it, and in one of the ways to write accents (NFC)."""
    return unicodedata.normalize("NFC", name.strip())


class People:
    """Profiles by the people that they are named after.

    Two names are one person's if first and last names are equal, whatever their case, accents, middle names,
    order ("Quill, Ada") and suffixes; the initial of a first name stands for all of them. ``~Ada_Quill1`` is
    Ada Quill, but ``~Ada_Quill2`` another one. Who is taken for an author and is none loses a submission; who
    is one and is not seen would judge their own.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._whole: dict[str, set[str]] = {}
        self._spelled: dict[_Spelling, set[str]] = {}
        self._initials: dict[_Spelling, set[str]] = {}
        for name in names:
            self._whole.setdefault(_folded(name), set()).add(name)
            for spelling in _spellings(name):
                self._spelled.setdefault(spelling, set()).add(name)
                self._initials.setdefault(_initial(spelling), set()).add(name)

    def of(self, paper: Paper) -> set[str]:
        """The profiles of the authors of ``paper``, by their ids and, where those do not say, their names."""
        found: set[str] = set()
        told: set[_Spelling] = set()
        for known_as in paper.author_ids:
            found |= self._whole.get(_folded(known_as), set())
            if known_as.startswith("~"):
                found |= {name for name in self._alike(known_as) if not _are_two(name, known_as)}
                told |= {each for own in _spellings(known_as) for each in (own, _initial(own))}
        for author in paper.authors:
            found |= self._whole.get(_folded(author), set())
            if told.isdisjoint(_spellings(author)):
                found |= {name for name in self._alike(author) if not _are_two(name, author)}
        return found

    def _alike(self, author: str) -> Iterator[str]:
        for first, last in _spellings(author):
            by_initial = self._initials if len(first) == 1 else self._spelled
            yield from self._spelled.get((first, last), ())
            if first:
                yield from by_initial.get((first[0], last), ())


def _are_two(name: str, other: str) -> bool:
    """Whether two ids of OpenReview differ in their number alone: so it tells people of one name apart."""
    both = _folded(name), _folded(other)
    are_ids = all(each.startswith("~") for each in both)
    return are_ids and both[0] != both[1] and both[0].rstrip(_DIGITS) == both[1].rstrip(_DIGITS)


def _initial(spelling: _Spelling) -> _Spelling:
    return spelling[0][:1], spelling[1]


def _folded(name: str) -> str:
    return one_form(name).casefold()


def _spellings(name: str) -> set[_Spelling]:
    """First and last name, with what a hyphen joins as one word and as two; none of an address."""
    if "@" in name:
        return set()
    bare = name.removeprefix("~").rstrip(_DIGITS).replace("_", " ").casefold()
    plain = _MARK.sub("", unicodedata.normalize("NFKD", bare)).translate(_LETTERS)
    plain = _APOSTROPHE.sub("", plain)
    found = set()
    for joint in ("", " "):
        parts = [_words(part) for part in _HYPHEN.sub(joint, plain).split(",")]
        last, *firsts = [words for words in parts if words] or [[]]
        words = [*(word for part in firsts for word in part), *last]
        if words:
            found.add((words[0] if len(words) > 1 else "", words[-1]))
    return found


def _words(text: str) -> list[str]:
    # Vowels of many scripts are marks.
    words = "".join(each if unicodedata.category(each)[0] in "LNM" else " " for each in text).split()
    while words and words[-1] in _SUFFIXES:
        words.pop()
    return words
