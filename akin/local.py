"""A collection that is asked in this process, by the methods and with the answers of ``akin.Client``."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from pydantic import BaseModel, TypeAdapter, ValidationError

from akin.client import calls
from akin.client.answers import (
    FetchedPapers,
    Paper,
    PaperList,
    RecommendationsAnswer,
    SearchAnswer,
    SentenceAnswer,
    TitlesAnswer,
)
from akin.client.match_answers import ComparedPapers
from akin.client.queries import ListFilters, RecommendationsRequest, SearchRequest, SentenceRequest
from akin.client.queries import Seed as PaperSeed
from akin.client.responses import read_answer
from akin.client.saved_answers import News, SavedQuery, SavedQueryHead, SavedQueryList
from models.errors import InputError
from service.api.schemas.base import PaperOut, where
from service.api.schemas.compare import CompareIn, CompareOut
from service.api.schemas.filters import AddressFiltersIn
from service.api.schemas.papers import FetchedOut, ListOut
from service.api.schemas.queries import (
    NewsOut,
    SavedQueriesOut,
    SavedQueryHeadOut,
    SavedQueryOut,
    SaveIn,
    to_query,
)
from service.api.schemas.recommendations import RecommendationsIn, RecommendationsOut
from service.api.schemas.search import QueryIn, SearchIn, SearchOut
from service.api.schemas.sentences import SentenceSearchIn, SentenceSearchOut
from service.api.schemas.titles import TitlesOut
from service.collection.generations import open_engine
from service.match.side_by_side import side_by_side
from service.saved.news import news_of
from service.saved.saved_queries import NewSavedQuery, SavedQueries
from service.search.engine import SearchEngine
from service.search.lookup import Listing, fetch_papers, find_titles, list_papers
from service.search.query import Page, SearchQuery, Seed
from service.search.sentences import search_sentences
from service.settings import settings_of

_Answer = TypeVar("_Answer")
_Body = TypeVar("_Body")
_SEARCH = TypeAdapter(SearchIn)
_RECOMMENDATIONS = TypeAdapter(RecommendationsIn)
_SENTENCES = TypeAdapter(SentenceSearchIn)
_COMPARE = TypeAdapter(CompareIn)
_FILTERS = TypeAdapter(AddressFiltersIn)
_QUERY: TypeAdapter[Any] = TypeAdapter(QueryIn)
_SAVED: TypeAdapter[Any] = TypeAdapter(SaveIn)


class Local:
    """The collection in ``data``; use it in a ``with`` block, or ``close`` it.

    The catalog, where saved queries are kept, is that of AKIN_CATALOG_URL, or in ``data``. Whoever can read
    it needs no key: everybody's saved queries are seen, and one that is saved here is nobody's. Methods
    raise InputError for what cannot be asked, SnapshotError, EncoderError and StorageError.
    """

    def __init__(self, data: Path, *, device: str = "auto") -> None:
        self._settings = settings_of(data=data, device=device)
        self._saved: SavedQueries | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the database of the catalog, where it was opened."""
        if self._saved is not None:
            self._saved.close()

    @cached_property
    def _engine(self) -> SearchEngine:
        return open_engine(self._settings)

    def search(self, **asked: Unpack[SearchRequest]) -> SearchAnswer:
        """As ``Client.search``, without a cursor of the next page."""
        body = _checked(_SEARCH, calls.search(asked).body)
        return _answer(SearchAnswer, SearchOut.of(self._engine.search(_first_page(body))))

    def recommendations(self, **asked: Unpack[RecommendationsRequest]) -> RecommendationsAnswer:
        """As ``Client.recommendations``, without a cursor of the next page."""
        body = _checked(_RECOMMENDATIONS, calls.recommendations(asked).body)
        answer = RecommendationsOut.of(self._engine.search(_first_page(body)))
        return _answer(RecommendationsAnswer, answer)

    def sentences(self, **asked: Unpack[SentenceRequest]) -> SentenceAnswer:
        """As ``Client.sentences``."""
        body = _checked(_SENTENCES, calls.sentences(asked).body)
        return _answer(SentenceAnswer, SentenceSearchOut.of(search_sentences(self._engine, body.to_query())))

    def compare(self, a: str | PaperSeed, b: str | PaperSeed) -> ComparedPapers:
        """As ``Client.compare``."""
        body = _checked(_COMPARE, calls.compare(a, b).body)
        compared = side_by_side(self._engine, body.a.to_seed(), body.b.to_seed())
        return _answer(ComparedPapers, CompareOut.of(compared))

    def papers(self, names: Sequence[str]) -> tuple[Paper | None, ...]:
        """As ``Client.papers``."""
        found = FetchedOut.of(fetch_papers(self._engine, names), self._engine.snapshot.generation)
        return _answer(FetchedPapers, found).papers

    def list_papers(
        self, *, limit: int = 100, cursor: str | None = None, **filters: Unpack[ListFilters]
    ) -> PaperList:
        """As ``Client.list_papers``; cursors are good here alone."""
        wanted: AddressFiltersIn = _checked(_FILTERS, dict(filters))
        listing = Listing(wanted.to_filters(), limit, Page(int(cursor or 0)))
        found = list_papers(self._engine, listing)
        out = ListOut(
            papers=[PaperOut.model_validate(each) for each in found.papers],
            total=found.total,
            next_cursor=None if found.next_page is None else str(found.next_page.offset),
            generation=self._engine.snapshot.generation,
        )
        return _answer(PaperList, out)

    def count_papers(self, **filters: Unpack[ListFilters]) -> int:
        """As ``Client.count_papers``."""
        return self.list_papers(limit=1, **filters).total

    def find_papers(self, title: str, *, limit: int = 10) -> TitlesAnswer:
        """As ``Client.find_papers``."""
        return _answer(TitlesAnswer, TitlesOut.of(find_titles(self._engine, title, limit=limit)))

    def save_query(
        self,
        name: str,
        *,
        search: SearchRequest | None = None,
        recommendations: RecommendationsRequest | None = None,
    ) -> SavedQuery:
        """As ``Client.save_query``."""
        body = _checked(_SAVED, calls.save_query(name, search, recommendations).body)
        kind, content = body.stored()
        change = self._engine.snapshot.manifest.change
        saved, _ = self._queries.save(NewSavedQuery("", body.name, kind.value, content, change))
        return _answer(SavedQuery, SavedQueryOut.of_saved(saved, feed=None))

    def saved_queries(self) -> tuple[SavedQueryHead, ...]:
        """As ``Client.saved_queries``, everybody's."""
        heads = [SavedQueryHeadOut.of(head, feed=None) for head in self._queries.all(owner=None)]
        return _answer(SavedQueryList, SavedQueriesOut(queries=heads)).queries

    def delete_query(self, query_id: str) -> None:
        """As ``Client.delete_query``."""
        self._queries.remove(query_id, owner=None)

    def new_papers(self, query_id: str, *, limit: int | None = None, weak: bool = False) -> News:
        """As ``Client.new_papers``."""
        found = self._queries.get(query_id, owner=None)
        query = to_query(found.head.kind, found.body)
        added = self._queries.added(found.head.seen)
        news = news_of(self._engine, query, added, limit=limit or query.limit, weak=weak)
        return _answer(News, NewsOut.of(found.head, news))

    def mark_seen(self, query_id: str, up_to: int) -> SavedQueryHead:
        """As ``Client.mark_seen``."""
        head = self._queries.mark_seen(query_id, up_to, owner=None)
        return _answer(SavedQueryHead, SavedQueryHeadOut.of(head, feed=None))

    @property
    def _queries(self) -> SavedQueries:
        if self._saved is None:
            self._saved = SavedQueries.open_existing(self._settings.catalog)
        return self._saved


def seed_of(asked: Mapping[str, Any]) -> Seed:
    """The paper, or text, that keywords of a search name or hold; raises InputError."""
    seed: Seed = _checked(_QUERY, dict(asked)).to_seed()
    return seed


def _first_page(body: SearchIn | RecommendationsIn) -> SearchQuery:
    if body.cursor is not None:
        raise InputError("A cursor belongs to a running service; ask it with --url.")
    return body.to_query()


def _checked(adapter: TypeAdapter[_Body], body: dict[str, Any] | None) -> _Body:
    """The body of a request, held to what the service takes; raises InputError, which names the field."""
    try:
        return adapter.validate_python(body)
    except ValidationError as error:
        first = error.errors()[0]
        reason = first["msg"].removeprefix("Value error, ")
        place = where(first["loc"])
        raise InputError(f"The query cannot be asked: {place}{': ' if place else ''}{reason}.") from error


def _answer(kind: type[_Answer], out: BaseModel) -> _Answer:
    """The same as a value of the client."""
    return read_answer(kind, out.model_dump_json().encode())
