"""Tests that answers written directly as JSON have the bytes of their models."""

from itertools import chain, combinations

import pytest

from models.transport import Scorer
from models.types import Facet, Filters
from service.api.schemas.base import pasted_paper
from service.api.schemas.search.recommendations import RecommendationsOut
from service.api.schemas.search.results import SearchOut
from service.api.schemas.writing import JSONAnswer
from service.search.aspect import Aspect, Contrast
from service.search.engine import SearchEngine
from service.search.query import Detail, SearchQuery, Seed

START = Seed("demo:p03-m07")
# Its text looks like the parts that are inserted later.
PASTED = pasted_paper(
    '"results":[]', 'We measure "results":[] and floods \\ "took_ms":1. Ever \u2028 so often.'
)
CONTRAST = Aspect(facets=(Facet.METHOD,), unlike=Contrast(facets=(Facet.BACKGROUND,)))
SOME_DETAILS = [*chain.from_iterable(combinations(Detail, n) for n in range(3))]


@pytest.mark.parametrize(
    "query",
    [
        *(SearchQuery((START,), scorer=scorer) for scorer in Scorer),
        *(SearchQuery((START,), include=frozenset(details), limit=2) for details in SOME_DETAILS),
        SearchQuery((START,), limit=60, max_alignments=3),
        SearchQuery((START,), words=0.0),
        SearchQuery((Seed(START.paper_id, aspect=CONTRAST),)),
        SearchQuery((Seed(paper=PASTED),)),
        SearchQuery((Seed(text="floods"),)),
        SearchQuery((START,), filters=Filters(year_from=2090)),
    ],
)
def test_an_answer_is_written_as_its_model_is(plain_engine: SearchEngine, query: SearchQuery) -> None:
    """A search is written as its model, with alignments, words and strengths, or without results."""
    answer = plain_engine.search(query)
    out = SearchOut.of(answer, next_cursor="abc")
    assert JSONAnswer.of(out) == SearchOut.written(answer, next_cursor="abc")


def test_recommendations_are_written_as_their_model_is(plain_engine: SearchEngine) -> None:
    """Recommendations, whose alignments name their seeds, are written as their model."""
    answer = plain_engine.search(SearchQuery((START, Seed(paper=PASTED)), (Seed("demo:p01-m03"),), limit=5))
    assert answer.results
    assert JSONAnswer.of(RecommendationsOut.of(answer)) == RecommendationsOut.written(answer)
