"""A collection in this process, with the methods and answers of ``akin.Client``."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Unpack, cast

from pydantic import Field, TypeAdapter

from akin.client import requests
from akin.client.client import Client
from akin.client.library import looked_up, seeds_of, with_libraries
from akin.client.pagination import Pages
from akin.client.params import (
    Draft,
    ListFilters,
    ListRequest,
    MatchRequest,
    Profiles,
    RecommendKeywords,
    SearchKeywords,
    SeedLike,
    Seeds,
    SentenceKeywords,
    SentenceRequest,
    ids_of,
    name_of,
)
from akin.client.responses.matches import ComparedPapers, MatchAnswer
from akin.client.responses.papers import (
    FetchedPapers,
    Paper,
    PaperAnswer,
    PaperList,
    PapersAccepted,
    TitlesAnswer,
)
from akin.client.responses.ranked import PaperLike, RecommendationsAnswer, SearchAnswer
from akin.client.responses.sentences import Analysis, SentenceAnswer
from akin.client.responses.vectors import Embedding, PaperVectorsAnswer
from akin.client.signatures import all_like, spelt
from akin.client.uploads import Papers
from akin.compiling import compile_in_background
from akin.local.folder import as_answer, checked
from akin.local.saved_queries import WithSavedQueries
from models.errors import InputError, SnapshotError, StorageError
from service.api.schemas.base import WHOLE, PaperAnswerOut, PaperOut
from service.api.schemas.match import MatchIn, MatchOut
from service.api.schemas.papers import FetchedOut, ListIn, ListOut, PapersIn, PapersOut
from service.api.schemas.search.compare import CompareIn, CompareOut
from service.api.schemas.search.query import PastedIn, QueryIn
from service.api.schemas.search.recommendations import RecommendationsIn, RecommendationsOut
from service.api.schemas.search.results import SearchOut
from service.api.schemas.search.search import SearchIn
from service.api.schemas.search.sentences import AnalyzeOut, SentenceSearchIn, SentenceSearchOut
from service.api.schemas.titles import TitlesOut
from service.api.schemas.vectors import (
    EmbedIn,
    EmbedOut,
    EncoderOut,
    PaperVectorsAnswerOut,
    PaperVectorsOut,
    VectorEncoding,
)
from service.match.answer import match
from service.match.side_by_side import side_by_side
from service.resolve.analysis import analyze
from service.resolve.embedding import embed
from service.search.lookup import Listing, fetch_papers, find_titles, list_papers, paper_vectors
from service.search.query import Page, Seed
from service.search.query import SearchAnswer as Found
from service.search.sentences import search_sentences

_SEARCH = TypeAdapter(SearchIn)
_RECOMMENDATIONS = TypeAdapter(RecommendationsIn)
_SENTENCES = TypeAdapter(SentenceSearchIn)
_COMPARE = TypeAdapter(CompareIn)
_MATCH = TypeAdapter(MatchIn)
_PAPERS = TypeAdapter(PapersIn)
_DRAFT = TypeAdapter(PastedIn)
_DRAFTS = TypeAdapter(EmbedIn)
_QUERY: TypeAdapter[Any] = TypeAdapter(QueryIn)
_TITLE = TypeAdapter(ListIn)


class _ListIn(ListIn):
    """A request like ``ListIn``, but without an upper limit, because its pages are not sent anywhere."""

    limit: Annotated[int, Field(ge=1), WHOLE] = 100


_LIST = TypeAdapter(_ListIn)
_NAMED = ("venues", "fields", "authors", "has_facets")


@spelt
def open_collection(data: str | Path, *, device: str | None = None) -> "Collection":
    """Open the collection in the folder ``data``; raises SnapshotMissingError if there is none.

    The encoder is loaded on ``device`` (default: AKIN_DEVICE, else ``auto``) when it is first needed, to
    encode pasted text. The scoring loops are compiled in the background, once after an installation.
    """
    if not isinstance(data, str | Path):
        raise InputError(f"akin.open takes the path of a data folder, not {type(data).__name__}.")
    if str(data).startswith(("http://", "https://")):
        raise InputError("akin.open takes a data folder, not an address; for a service, use akin.Client.")
    collection = Collection(Path(data), device=device)
    len(collection)
    compile_in_background()
    return collection


@all_like(Client)
class Collection(WithSavedQueries):
    """The collection in ``data``; use it in a ``with`` block, or ``close`` it. Threads may share it.

    It has the methods and answers of ``Client``, except those for batches, feeds and stored profiles, which
    need a service. Papers that another process adds are searchable at once. The catalog is at
    AKIN_CATALOG_URL if that is set, else in ``data``. No key is needed: the saved queries of all keys are
    visible, and a query saved here belongs to no key. Methods raise InputError for invalid input,
    SnapshotError, EncoderError and StorageError.
    """

    def search(self, paper_id: PaperLike | None = None, **keywords: Unpack[SearchKeywords]) -> SearchAnswer:
        """As ``Client.search``."""
        pages = Pages(requests.search, requests.given(paper_id=paper_id, **keywords))
        while (request := pages.next_request()) is not None:
            body = checked(_SEARCH, request.body)
            found, cursor = self._page(body)
            pages.take(as_answer(SearchAnswer, SearchOut.written(found, next_cursor=cursor)))
        return pages.answer()

    def recommend(self, seeds: Seeds = (), **keywords: Unpack[RecommendKeywords]) -> RecommendationsAnswer:
        """As ``Client.recommend``."""
        sent = looked_up(with_libraries(requests.given(**keywords, seeds=seeds_of(seeds))), self.papers)
        pages = Pages(requests.recommend, sent)
        while (request := pages.next_request()) is not None:
            body = checked(_RECOMMENDATIONS, request.body)
            found, cursor = self._page(body)
            pages.take(
                as_answer(RecommendationsAnswer, RecommendationsOut.written(found, next_cursor=cursor))
            )
        return pages.answer()

    def _page(self, body: SearchIn | RecommendationsIn) -> tuple[Found, str | None]:
        """Return the page of a list that a body requests, and the cursor of the next page.

        The page comes from the generation in which its cursor began.
        """
        query, engine = self._cursors.at(body.cursor, body.to_query(), self._engine, self._engines)
        return self._cursors.answered(query, engine)

    def search_sentences(
        self, text: str | None = None, **keywords: Unpack[SentenceKeywords]
    ) -> SentenceAnswer:
        """As ``Client.search_sentences``."""
        request = cast(SentenceRequest, requests.given(text=text, **keywords))
        body = checked(_SENTENCES, requests.search_sentences(request).body)
        return as_answer(
            SentenceAnswer, SentenceSearchOut.of(search_sentences(self._engine, body.to_query()))
        )

    def analyze(self, abstract: str | Sequence[str], *, title: str = "") -> Analysis:
        """As ``Client.analyze``."""
        body = checked(_DRAFT, requests.analyze(title, abstract).body)
        return as_answer(Analysis, AnalyzeOut.of(analyze(self._engine.annotator, body.to_paper())))

    def compare(self, a: SeedLike, b: SeedLike) -> ComparedPapers:
        """As ``Client.compare``."""
        body = checked(_COMPARE, requests.compare(a, b).body)
        compared = side_by_side(self._engine, body.a.to_seed(), body.b.to_seed())
        return as_answer(ComparedPapers, CompareOut.of(compared))

    def match(
        self,
        submissions: Iterable[SeedLike],
        profiles: Profiles,
        **keywords: Unpack[MatchRequest],
    ) -> MatchAnswer:
        """As ``Client.match``, except that all profiles must be given with their papers."""
        params = cast(MatchRequest, requests.given(**keywords))
        body = checked(_MATCH, requests.match(submissions, profiles, params).body)
        if body.named:
            raise InputError(
                f"Give the papers of the profile {body.named[0][:60]!r}: a service keeps profiles."
            )
        return as_answer(MatchAnswer, MatchOut.of(match(self._engine, body.to_query({}))))

    def embed(self, papers: Draft | Iterable[Draft]) -> Embedding:
        """As ``Client.embed``."""
        body = checked(_DRAFTS, requests.embed(papers).body)
        embedding = embed(self._engine.annotator.encoder, [paper.to_paper() for paper in body.papers])
        return as_answer(Embedding, EmbedOut.of(embedding, body.encoding))

    def vectors(self, name: PaperLike) -> PaperVectorsAnswer:
        """As ``Client.vectors``."""
        engine = self._engine
        found = paper_vectors(engine, engine.names.position(name_of(name)))
        out = PaperVectorsAnswerOut(
            encoder=EncoderOut.of(engine.snapshot.manifest.encoder),
            paper=PaperVectorsOut.of(found, VectorEncoding.BASE64),
            generation=engine.snapshot.generation,
        )
        return as_answer(PaperVectorsAnswer, out)

    def add(self, papers: Papers, *, wait: bool = True) -> PapersAccepted:
        """Add up to 1,000 papers, or replace those with the same ids; either all are added or none.

        Give a dictionary, a file of papers in any format, or a list of these. Entries of a file that cannot
        be used are skipped with a warning.

        With ``wait``, the papers are searchable when this method returns, unless another process is
        publishing and takes more than five seconds. Segments that are due are merged, which takes longer.
        """
        given = checked(_PAPERS, requests.add(papers, wait=wait).body, what="The papers").to_papers()
        change = self._ingest.add(given)
        self._publish(change.number, wait=wait)
        out = PapersOut(
            accepted=len(given),
            unchanged=len(given) - change.n_changed,
            change=change.number,
            generation=self._engine.snapshot.generation,
        )
        return as_answer(PapersAccepted, out)

    def delete(self, paper_id: PaperLike | Iterable[PaperLike]) -> None:
        """As ``Client.delete``."""
        last: int | None = None
        try:
            for each in ids_of(paper_id):
                if (change := self._ingest.delete(each)) is not None:
                    last = change
        finally:  # also for papers deleted before an invalid name
            if last is not None:
                self._publish(last)

    def _publish(self, change: int, *, wait: bool = True) -> None:
        """Publish pending changes, until answers show ``change`` if this is to ``wait``; merge if due."""
        if wait:
            self._ingest.publish_until_shown(change)
        else:
            self._ingest.publish_pending()
        try:
            self._ingest.merge()
        except (SnapshotError, StorageError) as error:  # the change is published all the same
            warnings.warn(f"Segments were not merged: {error}", stacklevel=4)

    def paper(self, paper_id: PaperLike) -> Paper:
        """As ``Client.paper``; raises PaperNotFoundError."""
        engine = self._engine  # read once, as positions differ between generations
        found = PaperOut.model_validate(engine.snapshot.paper(engine.names.position(name_of(paper_id))))
        answer = PaperAnswerOut(paper=found, generation=engine.snapshot.generation)
        return as_answer(PaperAnswer, answer).paper

    def papers(self, names: PaperLike | Iterable[PaperLike]) -> tuple[Paper | None, ...]:
        """As ``Client.papers``, for any number of names."""
        engine = self._engine
        found = FetchedOut.of(fetch_papers(engine, ids_of(names)), engine.snapshot.generation)
        return as_answer(FetchedPapers, found).papers

    def list_papers(self, **keywords: Unpack[ListRequest]) -> PaperList:
        """As ``Client.list_papers``."""
        wanted = checked(_LIST, _of_lists(requests.given(**keywords)))
        listing = Listing(wanted.to_filters(), wanted.limit)
        listing, engine = self._cursors.at(wanted.cursor, listing, self._engine, self._engines)
        found = list_papers(engine, listing)
        cursor = self._cursors.following(found.next_page, listing, engine)
        out = ListOut.of(found, next_cursor=cursor, generation=engine.snapshot.generation)
        return as_answer(PaperList, out)

    def _cursor_at(self, place: int, filters: ListFilters) -> str:
        """Return a cursor with which ``list_papers`` begins at number ``place`` (from 0), or at the end."""
        listing, engine = Listing(checked(_LIST, _of_lists(dict(filters))).to_filters()), self._engine
        return self._cursors.write(Page(min(place, len(engine.snapshot))), listing, engine.digest)

    def count_papers(self, **filters: Unpack[ListFilters]) -> int:
        """As ``Client.count_papers``."""
        return self.list_papers(limit=1, **filters).total

    def find_papers(self, title: str, *, limit: int = 10) -> TitlesAnswer:
        """As ``Client.find_papers``."""
        request = checked(_TITLE, {"title": name_of(title), "limit": limit})
        found = find_titles(self._engine, request.title or "", limit=request.limit)
        return as_answer(TitlesAnswer, TitlesOut.of(found))


def _of_lists(keywords: dict[str, Any]) -> dict[str, Any]:
    """Return filters of a list with a single name replaced by a list of it, as in an address."""
    return {
        name: [value] if isinstance(value, str) and name in _NAMED else value
        for name, value in keywords.items()
    }


def seed_of(given: Mapping[str, Any]) -> Seed:
    """Return the paper or text that the keywords of a search name or contain; raises InputError."""
    seed: Seed = checked(_QUERY, dict(given)).to_seed()
    return seed
