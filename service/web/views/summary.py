"""The view of the whole query in one line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.web.address.links import short, toggled
from service.web.address.page_query import PageQuery
from service.web.views.seeds import SeedView, without_avoided_alone

_START: Final = "/"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a query; ``before`` are the words before it, ``href`` the address of the query without it.

    ``whole`` is the full title if ``words`` shorten it; ``facet`` is the part's facet if it is one.
    """

    before: str
    words: str
    href: str
    whole: str = ""
    facet: str = ""


def summarize(asked: PageQuery, title: str, seeds: Sequence[SeedView]) -> tuple[Part, ...]:
    """Return the parts of ``asked`` in reading order; ``title`` is that of its paper or text."""
    parts = (*_own(asked, title), *_further(seeds), *filters_of(asked), *_words(asked))
    opened = (replace(part, before=f"Papers {part.before}") for part in parts[:1])
    return (*opened, *parts[1:])


def filters_of(asked: PageQuery) -> tuple[Part, ...]:
    """Return the filters of a query as parts."""
    parts = []
    if asked.year_from is not None or asked.year_to is not None:
        parts.append(Part("from", _years(asked), asked.address(year_from=None, year_to=None)))
    for first, kind in (("in", "venues"), ("on", "fields"), ("by", "authors")):
        names: tuple[str, ...] = getattr(asked, kind)
        parts += [
            Part("or" if number else first, short(name), asked.address(**{kind: toggled(names, name)}), name)
            for number, name in enumerate(names)
        ]
    return tuple(parts)


def _own(asked: PageQuery, title: str) -> Iterator[Part]:
    if not (asked.paper or asked.text or asked.abstract):
        return
    rest = without_avoided_alone(asked.without_start())
    words = asked.text or title or asked.paper or "your text"
    named = short(words)
    yield Part(
        "that say something like" if asked.text else "similar to",
        f"“{named}”" if asked.text else named,
        rest.address() if rest.has_seeds or rest.has_only_filters else _START,
        words if named != words else "",
    )
    first = "in their" if asked.text else "in"
    for number, facet in enumerate(asked.facets):
        left = asked.address(facets=toggled(asked.facets, facet))
        yield Part("and" if number else first, facet, left, facet=facet)
    if asked.sentences:
        yield Part("in", _numbered(asked.sentences), asked.address(sentences=()))
    for number, facet in enumerate(asked.unlike_facets):
        left = asked.address(unlike_facets=toggled(asked.unlike_facets, facet))
        yield Part("and" if number else "but different in", facet, left, facet=facet)
    if asked.unlike_sentences:
        yield Part("but different in", _numbered(asked.unlike_sentences), asked.address(unlike_sentences=()))


def _numbered(numbers: Sequence[int]) -> str:
    people = ", ".join(str(number + 1) for number in numbers)
    return f"sentence {people}" if len(numbers) == 1 else f"sentences {people}"


def _further(seeds: Sequence[SeedView]) -> Iterator[Part]:
    for seed in seeds:
        named = short(seed.title)
        respect = f" in {seed.respect}" if seed.respect else ""
        yield Part(
            "unlike" if seed.negative else "like",
            f"{named}{respect}",
            seed.without,
            seed.title if named != seed.title else "",
        )


def _years(asked: PageQuery) -> str:
    first, last = asked.year_from, asked.year_to
    if first is None:
        return f"{last} or before"
    return f"{first} or later" if last is None else f"{first}–{last}"


def _words(asked: PageQuery) -> Iterator[Part]:
    if asked.words is not None:
        words = f"shared words weighing {asked.words:g}" if asked.words else "shared words"
        yield Part("with" if asked.words else "without", words, asked.address(words=None))
