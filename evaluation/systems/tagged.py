"""Facet queries whose sentences are chosen by a tagger's facets, not by those the collection gives."""

from collections.abc import Sequence
from dataclasses import replace

from evaluation.collection import EvalQuery
from models.annotator import AnnotatedPaper, Annotator
from models.types import Facet, Paper, Unit
from service.search.aspect import Aspect, select_sentences


def has_facet(query: EvalQuery) -> bool:
    """Whether a query asks for papers akin to its paper in one of the facets."""
    return query.facet in list(Facet) and not query.is_text


def retag(queries: Sequence[EvalQuery], annotator: Annotator) -> dict[str, EvalQuery]:
    """The ``queries`` by id, those with a facet choosing the sentences that ``annotator`` gives it.

    As in the service, where no sentence has the facet none is chosen, which leaves the query unanswered.
    """
    papers = {query.paper.id: _untagged(query.paper) for query in queries if has_facet(query)}
    tagged = dict(zip(papers, annotator.annotate(list(papers.values())), strict=True))
    return {
        query.id: _retagged(query, tagged[query.paper.id]) if has_facet(query) else query for query in queries
    }


def _untagged(paper: Paper) -> Paper:
    """``paper`` without the facets it came with, which a tagger would leave as they are."""
    return replace(paper, sentences=tuple(replace(sentence, facet=None) for sentence in paper.sentences))


def _retagged(query: EvalQuery, tagged: AnnotatedPaper) -> EvalQuery:
    aspect, n_vectors = Aspect(facets=(Facet(query.facet),)), len(tagged.encoded.sentences)
    selection = select_sentences(aspect, tagged.paper, n_vectors=n_vectors, unit=Unit.SENTENCE)
    return replace(query, paper=tagged.paper, selected=selection.like)
