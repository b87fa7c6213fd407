"""Names of profiles: which are allowed, and which are those of a paper's authors."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from models.errors import InputError
from models.types import Paper

MAX_NAME_CHARS: Final = 300
_DIGITS: Final = "0123456789"
_SUFFIXES: Final = frozenset({"jr", "sr", "ii", "iii", "iv", "phd"})
_TITLES: Final = frozenset({"dr", "prof", "professor"})
# Letters that Unicode decomposition leaves whole.
_LETTERS: Final = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe"}
)
_MARK = re.compile("[\u0300-\u036f]")
_APOSTROPHE = re.compile("['’ʼ`´]")
_HYPHEN = re.compile("[-‐‑‒–]")
_CAPITALS = re.compile(r"\b[A-Z]{2,3}\b")
_DOCTOR = re.compile(r"\bph\.\s?d\b\.?")

# First and last name; the first is empty if the name is a single word.
_Spelling = tuple[str, str]


def check_name(name: str) -> None:
    """Raise InputError if ``name`` cannot be the name of a profile: blank, too long or not printable."""
    # U+FFFD replaces bytes that are not UTF-8, so two different names could become equal.
    if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable() or "\ufffd" in name:
        raise InputError(f"The name of a profile has 1 to {MAX_NAME_CHARS} printable characters.")


def one_form(name: str) -> str:
    """Return a name as it is stored: without surrounding space, and with accents in one form (NFC)."""
    return unicodedata.normalize("NFC", name.strip())


class NameIndex:
    """Profiles, found by the people that they are named after.

    Two names belong to one person if first and last names are equal, ignoring case, accents, middle names,
    order ("Quill, Ada") and suffixes; an initial matches every first name that begins with it.
    ``~Ada_Quill1`` is Ada Quill, but ``~Ada_Quill2`` is someone else. A wrong match only costs a reviewer a
    submission, while a missed one would let authors review their own work.
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
        """Return the profiles of the authors of ``paper``, by id, or by name if the ids do not tell."""
        found: set[str] = set()
        identified: set[_Spelling] = set()
        for known_as in paper.author_ids:
            found |= self._whole.get(_folded(known_as), set())
            if known_as.startswith("~"):
                found |= {name for name in self._alike(known_as) if not _are_namesakes(name, known_as)}
                identified |= {each for own in _spellings(known_as) for each in (own, _initial(own))}
        for author in paper.authors:
            found |= self._whole.get(_folded(author), set())
            if identified.isdisjoint(_spellings(author, initials=False)):
                found |= {name for name in self._alike(author) if not _are_namesakes(name, author)}
        return found

    def _alike(self, author: str) -> Iterator[str]:
        for first, last in _spellings(author):
            by_initial = self._initials if len(first) == 1 else self._spelled
            yield from self._spelled.get((first, last), ())
            if first:
                yield from by_initial.get((first[0], last), ())


def _are_namesakes(name: str, other: str) -> bool:
    """Return whether two OpenReview ids differ only in the number, which distinguishes people of one name."""
    both = _folded(name), _folded(other)
    are_ids = all(each.startswith("~") for each in both)
    return are_ids and both[0] != both[1] and both[0].rstrip(_DIGITS) == both[1].rstrip(_DIGITS)


def _initial(spelling: _Spelling) -> _Spelling:
    return spelling[0][:1], spelling[1]


def _folded(name: str) -> str:
    return one_form(name).casefold()


def _spellings(name: str, *, initials: bool = True) -> set[_Spelling]:
    """Return first and last name, with hyphenated words as one word and as two; none for an address.

    A first name of two or three capitals may be ``initials`` (JK Quill), so its first letter is one more.
    """
    if "@" in name:
        return set()
    bare = name.removeprefix("~").rstrip(_DIGITS).replace("_", " ")
    capitals = {word.casefold() for word in _CAPITALS.findall(bare)} if initials else set()
    plain = _MARK.sub("", unicodedata.normalize("NFKD", bare.casefold())).translate(_LETTERS)
    plain = _DOCTOR.sub(" phd", _APOSTROPHE.sub("", plain))
    found = set()
    for joint in ("", " "):
        parts = [_words(part) for part in _HYPHEN.sub(joint, plain).split(",")]
        last, *firsts = [words for words in parts if words] or [[]]
        words = [*(word for part in firsts for word in part), *last]
        while len(words) > 1 and words[0] in _TITLES:
            del words[0]
        if words:
            first = words[0] if len(words) > 1 else ""
            found |= {(own, words[-1]) for own in (first, *([first[0]] if first in capitals else []))}
    return found


def _words(text: str) -> list[str]:
    # Marks count as letters, as the vowels of many scripts are marks.
    words = "".join(each if unicodedata.category(each)[0] in "LNM" else " " for each in text).split()
    while words and words[-1] in _SUFFIXES:
        words.pop()
    return words
