"""The base classes of lists of results: iteration, conversion to pandas and BibTeX, display in notebooks."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar, overload

from models.errors import InputError
from models.extras import needed

if TYPE_CHECKING:
    from pandas import DataFrame

    from akin.client.responses.papers import Paper
    from akin.client.responses.ranked import Seed

PAPER_COLUMNS: Final = ("id", "title", "authors", "year", "venue", "doi", "url", "fields", "abstract")
# The types of columns: a table without rows does not know them, and an unknown year would make all floats.
_TYPES: Final = {
    **dict.fromkeys(("score", "nearer_than", "similarity", "distance", "usual", "affinity"), "float64"),
    **dict.fromkeys(("sentence", "submission", "papers"), "int64"),
    **dict.fromkeys(("year", "nearest"), "Int64"),
    "alone": "boolean",
    "assigned": "bool",
    "added_at": "datetime64[ns, UTC]",
}
# The file extension of each table, as in ``service.web.tables``.
TABLES: Final = {"latex": "tex", "markdown": "md", "tsv": "tsv"}
_SHOWN: Final = 10  # lines of a list in an interpreter
_MAX_TITLE_CHARS: Final = 80  # characters of a title there


class Described:
    """A value that an interpreter shows on one line."""

    __slots__ = ()

    def line(self) -> str:
        """Return a description on one line."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.line()}>"


class Faceted(Described):
    """A sentence with a text and a facet."""

    __slots__ = ()
    text: str
    facet: str | None

    def line(self) -> str:
        """Return the facet and text on one line."""
        return f"{self.facet or '':<10}  {titled(self.text, None)}"


class Item(Protocol):
    """One entry of a list."""

    def row(self) -> dict[str, Any]:
        """Return the cells of the entry by the names of their columns."""

    def line(self) -> str:
        """Return a description of the entry on one line."""


_Item = TypeVar("_Item", bound=Item)


class Listed(Generic[_Item]):
    """An answer with a list in its field ``LIST``; ``for``, ``len`` and ``[...]`` apply to the list."""

    __slots__ = ()
    LIST: ClassVar[str] = "results"
    COLUMNS: ClassVar[tuple[str, ...]] = ()  # of a table, which may be empty

    @property
    def _items(self) -> tuple[_Item, ...]:
        items: tuple[_Item, ...] = getattr(self, self.LIST)
        return items

    def __iter__(self) -> Iterator[_Item]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, place: int) -> _Item: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[_Item, ...]: ...

    def __getitem__(self, place: int | slice) -> _Item | tuple[_Item, ...]:
        return self._items[place]

    def __repr__(self) -> str:
        total: int | None = getattr(self, "total", None)
        of_all = "" if total is None else f" of {total:,}"
        head = f"<{type(self).__name__}: {len(self):,}{of_all}>"
        return in_lines(head, [item.line for item in self._items], notes_of(self))

    def _rows(self) -> Iterator[dict[str, Any]]:
        return (item.row() for item in self._items)

    def to_pandas(self) -> "DataFrame":
        """Return a table with a row for each entry; raises MissingPackageError without pandas."""
        with needed("A table of pandas"):
            from pandas import DataFrame  # noqa: PLC0415 - clients do without it

        table = DataFrame(list(self._rows()), columns=self.COLUMNS or None)
        return table.astype({name: kind for name, kind in _TYPES.items() if name in table})


class PaperItem(Item, Protocol):
    """An entry that is about a paper."""

    @property
    def about(self) -> "Paper":
        """The paper."""


_PaperItem = TypeVar("_PaperItem", bound=PaperItem)


class ListedPapers(Listed[_PaperItem]):
    """A list of papers that can be exported to reference managers."""

    __slots__ = ()
    COLUMNS: ClassVar[tuple[str, ...]] = PAPER_COLUMNS

    def to_bibtex(self) -> str:
        """Return the papers as BibTeX entries, the same as from the service and the command line."""
        from service.api.exports import to_bibtex  # noqa: PLC0415 - as it is part of the service

        return to_bibtex(self._papers)

    def to_ris(self) -> str:
        """Return the papers in RIS, the format of EndNote, Mendeley and Zotero."""
        with needed("RIS", extra="local"):
            from service.api.exports import to_ris  # noqa: PLC0415 - the same

            return to_ris(self._papers)

    @property
    def _papers(self) -> Sequence["Paper"]:
        return list({item.about.id: item.about for item in self._items}.values())


class Results(ListedPapers[_PaperItem]):
    """A list of results, which a notebook shows as the web page does."""

    __slots__ = ()
    COLUMNS: ClassVar[tuple[str, ...]] = ("score", "strength", "nearer_than", "match", *PAPER_COLUMNS)

    def to_table(self, form: str) -> str:
        """Return a table in ``latex``, ``markdown`` or ``tsv``: problem, method and result of each paper.

        It is that of the web page. Raises InputError for another form, and MissingPackageError.
        """
        if form not in TABLES:
            raise InputError(f"A table comes as {', '.join(TABLES)}, not as {form!r}.")
        with needed("A table of results", extra="local"):
            from service.api.schemas.search.results import ResultOut  # noqa: PLC0415 - as in to_bibtex
            from service.web.tables import TABLES as WRITERS  # noqa: PLC0415 - the same

        write = WRITERS[TABLES[form]][1]
        return write([ResultOut.model_validate(each) for each in self._items])

    def _repr_html_(self) -> str | None:
        """Return the cards of the web page, or ``None`` (text is shown) if the service is not installed."""
        try:
            from service.web.notebook import cards_of  # noqa: PLC0415 - a client alone has no page
        except ModuleNotFoundError:
            return None
        query = getattr(self, "query", None)
        seeds = getattr(self, "seeds", ())
        return cards_of(
            self._items,
            title=(query.title or query.sentences[0].text)
            if query
            else getattr(self, "name", "; ".join(_titles(seeds)) or "a query"),
            total=getattr(self, "total", None),
            n_chosen=len(query.selected) if query else 1,
            seeds=seeds,
            notes=notes_of(self),
        )


def _titles(seeds: "Sequence[Seed]") -> Iterator[str]:
    for seed in seeds:
        yield f"{'not ' if seed.negative else ''}{titled(seed.title or 'a text', None)}"


def notes_of(answer: object) -> list[str]:
    """Return the remarks on an answer: why it is empty, what was left out of the query, and its warnings."""
    detail = getattr(answer, "detail", None)
    lost = [each.line() for each in getattr(answer, "unresolved", ())]
    if len(lost) > _SHOWN:
        lost[_SHOWN:] = [f"Left out: {len(lost) - _SHOWN:,} more"]
    warned = (each.message for each in getattr(answer, "warnings", ()))
    return [*([detail] if detail else []), *lost, *warned]


def in_lines(head: str, lines: Sequence[Callable[[], str]], notes: Sequence[str]) -> str:
    """Return ``head`` and the first numbered lines below it, how many more there are, and the ``notes``."""
    shown = [f"{place:>3}. {line()}" for place, line in enumerate(lines[:_SHOWN], 1)]
    more = len(lines) - len(shown)
    return "\n".join([head, *shown, *([f"     ... and {more:,} more"] if more else []), *notes])


def named(paper_id: str | None, title: str) -> str:
    """Return the id and title of a paper, as far as it has them."""
    return ": ".join(filter(None, (paper_id, titled(title, None)))) or "a text"


def titled(title: str, year: int | None) -> str:
    """Return a title, shortened to 80 characters, with the year."""
    title = title if len(title) <= _MAX_TITLE_CHARS else f"{title[: _MAX_TITLE_CHARS - 1].rstrip()}…"
    return title if year is None else f"{title} ({year})"
