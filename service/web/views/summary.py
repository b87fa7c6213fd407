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


def summarize(page_query: PageQuery, title: str, seeds: Sequence[SeedView]) -> tuple[Part, ...]:
    """Return the parts of ``page_query`` in reading order; ``title`` is that of its paper or text."""
    parts = (*_own(page_query, title), *_further(seeds), *filters_of(page_query), *_words(page_query))
    opened = (replace(part, before=f"Papers {part.before}") for part in parts[:1])
    return (*opened, *parts[1:])


def filters_of(page_query: PageQuery) -> tuple[Part, ...]:
    """Return the filters of a query as parts."""
    parts = []
    if page_query.year_from is not None or page_query.year_to is not None:
        parts.append(Part("from", _years(page_query), page_query.address(year_from=None, year_to=None)))
    for first, kind in (("in", "venues"), ("on", "fields"), ("by", "authors")):
        names: tuple[str, ...] = getattr(page_query, kind)
        parts += [
            Part(
                "or" if number else first,
                short(name),
                page_query.address(**{kind: toggled(names, name)}),
                name,
            )
            for number, name in enumerate(names)
        ]
    return tuple(parts)


def _own(page_query: PageQuery, title: str) -> Iterator[Part]:
    if not (page_query.paper or page_query.text or page_query.abstract):
        return
    rest = without_avoided_alone(page_query.without_start())
    words = page_query.text or title or page_query.paper or "your text"
    named = short(words)
    yield Part(
        "that say something like" if page_query.text else "similar to",
        f"“{named}”" if page_query.text else named,
        rest.address() if rest.has_seeds or rest.has_only_filters else _START,
        words if named != words else "",
    )
    first = "in their" if page_query.text else "in"
    for number, facet in enumerate(page_query.facets):
        left = page_query.address(facets=toggled(page_query.facets, facet))
        yield Part("and" if number else first, facet, left, facet=facet)
    if page_query.sentences:
        yield Part("in", _numbered(page_query.sentences), page_query.address(sentences=()))
    for number, facet in enumerate(page_query.unlike_facets):
        left = page_query.address(unlike_facets=toggled(page_query.unlike_facets, facet))
        yield Part("and" if number else "but different in", facet, left, facet=facet)
    if page_query.unlike_sentences:
        yield Part(
            "but different in",
            _numbered(page_query.unlike_sentences),
            page_query.address(unlike_sentences=()),
        )


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


def _years(page_query: PageQuery) -> str:
    first, last = page_query.year_from, page_query.year_to
    if first is None:
        return f"{last} or before"
    return f"{first} or later" if last is None else f"{first}–{last}"


def _words(page_query: PageQuery) -> Iterator[Part]:
    if page_query.words is not None:
        words = f"shared words weighing {page_query.words:g}" if page_query.words else "shared words"
        yield Part("with" if page_query.words else "without", words, page_query.address(words=None))
