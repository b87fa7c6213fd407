"""What an answer says of itself: why it holds no paper, and what a reader of its results should know."""

from collections.abc import Iterable, Iterator
from enum import StrEnum

from models.facets import counted_as
from models.types import Facet, Filters
from service.answer_warnings import AnswerWarning, WarningCode, warning
from service.search.aspect import Aspect, Selection


class Reason(StrEnum):
    """Why an answer holds no paper."""

    FILTERED_OUT = "filtered_out"
    NO_SEED_RESOLVED = "no_seed_resolved"
    NOTHING_ELSE_INDEXED = "nothing_else_indexed"
    NO_SENTENCE_OF_THAT_FACET = "no_sentence_of_that_facet"
    NO_SUCH_TITLE = "no_such_title"


# The same for a person, but for what depends on the query.
DETAILS = {
    Reason.NO_SEED_RESOLVED: "None of the seeds can be used; unresolved says of each why.",
    Reason.FILTERED_OUT: "No paper passes the filters; widen them.",
    Reason.NOTHING_ELSE_INDEXED: "The collection holds no other paper.",
}


def none_allowed(filters: Filters) -> Reason:
    """Why no paper may answer a query with these filters."""
    return Reason.NOTHING_ELSE_INDEXED if filters == Filters() else Reason.FILTERED_OUT


def facet_warnings(
    aspect: Aspect, selection: Selection, present: frozenset[Facet | None]
) -> Iterator[AnswerWarning]:
    """A warning for the chosen facets that none of the query's sentences has; ``present`` are theirs."""
    if selection.like:
        unlike = () if aspect.unlike is None else aspect.unlike.facets
        for code, facets in (
            (WarningCode.FACET_MISSING, aspect.facets),
            (WarningCode.UNLIKE_FACET_MISSING, unlike),
        ):
            if missing := [facet for facet in facets if not counted_as(facet) & present]:
                yield warning(code, *missing)


def limit_warnings(aspect: Aspect, n_vectors: int) -> Iterator[AnswerWarning]:
    """A warning for the chosen sentences past the first ``n_vectors``, which alone were read."""
    unlike = None if aspect.unlike is None else aspect.unlike.sentences
    for code, chosen in (
        (WarningCode.SENTENCES_PAST_TOKEN_LIMIT, aspect.sentences),
        (WarningCode.UNLIKE_SENTENCES_PAST_TOKEN_LIMIT, unlike),
    ):
        if past := sorted({number for number in chosen or () if number >= n_vectors}):
            yield warning(code, *past)


def health_warnings(converged: Iterable[bool]) -> Iterator[AnswerWarning]:
    """A warning for results of which a plan did not meet its tolerance."""
    if unconverged := sum(not each for each in converged):
        yield warning(WarningCode.NOT_CONVERGED, unconverged)
