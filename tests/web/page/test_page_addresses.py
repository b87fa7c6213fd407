"""Tests of reading and writing addresses, apart from services, whose threads would draw random numbers."""

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from models.errors import QueryError
from models.types import Facet, Sentence
from service.web.address.further import Further
from service.web.address.page_query import Order, PageQuery, View


def test_a_form_that_sends_a_facet_and_its_ticks_means_the_facet() -> None:
    """A facet with exactly its sentences is the facet; other sentences replace it."""
    sentences = [Sentence("a", 0, 1, Facet.METHOD), Sentence("b", 1, 2, Facet.RESULT)]
    facets = (Facet.METHOD,)
    assert PageQuery(facets=facets) == PageQuery(sentences=(0,), facets=facets).settled(sentences)
    assert PageQuery(sentences=(0, 1)) == PageQuery(sentences=(0, 1), facets=facets).settled(sentences)
    assert PageQuery(unlike_sentences=(1,)) == PageQuery(unlike_sentences=(1,), unlike_facets=facets).settled(
        sentences
    )


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20).map(str.strip)
numbers = st.lists(st.integers(0, 10**9 - 1), max_size=4, unique=True).map(lambda all_: tuple(sorted(all_)))
names = st.lists(texts.filter(bool), max_size=3, unique=True).map(tuple)
facet_choices = st.lists(st.sampled_from(Facet), max_size=3, unique=True).map(tuple)
further = st.lists(
    st.builds(Further, texts.filter(bool), facet_choices), max_size=3, unique_by=lambda each: each.name
).map(tuple)
queries = st.fixed_dictionaries(
    {
        **dict.fromkeys(("paper", "text", "title", "abstract", "cursor"), texts),
        **dict.fromkeys(("sentences", "unlike_sentences"), numbers),
        **dict.fromkeys(("facets", "unlike_facets"), facet_choices),
        **dict.fromkeys(("like", "not_like"), further),
        **dict.fromkeys(("venues", "fields", "authors"), names),
        **dict.fromkeys(("year_from", "year_to", "opened"), st.none() | st.integers(0, 3000)),
        "words": st.none() | st.integers(0, 10**6).map(lambda thousandths: thousandths / 1_000),
        "limit": st.integers(0, 200),
        "view": st.sampled_from(View),
        "order": st.sampled_from(Order),
    }
)


@given(queries)
@settings(max_examples=200)
def test_an_address_holds_the_whole_query(parts: dict[str, Any]) -> None:
    """A query written into an address and read again is unchanged."""
    page_query = PageQuery(**parts)
    address = page_query.address(cursor=page_query.cursor, opened=page_query.opened)
    assert page_query == PageQuery.of(QueryParams(address[2:]))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "paper",
                    "s",
                    "facet",
                    "from",
                    "n",
                    "like",
                    "in",
                    "add",
                    "author",
                    "words",
                    "view",
                    "sort",
                    "x",
                ]
            ),
            st.text(max_size=8),
        )
    )
)
@settings(max_examples=200)
def test_any_address_is_read_or_refused(parameters: list[tuple[str, str]]) -> None:
    """Any address is either read or refused with a ``QueryError``."""
    with suppress(QueryError):
        PageQuery.of(QueryParams(parameters)).request()
