"""Systems that use facets predicted by a tagger instead of the collection's labels."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from evaluation.collection import EvalQuery
from models.annotator import AnnotatedPaper, Annotator
from models.types import Facet, PackedVectors, Paper, Unit
from service.search.aspect import Aspect, select_sentences


def has_facet(query: EvalQuery) -> bool:
    """Whether a query searches for papers akin to its paper in one of the facets."""
    return query.facet in list(Facet) and not query.is_text and not query.by_number


def tag_queries(queries: Sequence[EvalQuery], annotator: Annotator) -> dict[str, EvalQuery]:
    """Return the queries by id; for a query with a facet, ``annotator``'s facets select the sentences.

    As in the service, if no sentence has the facet, none is chosen, and the query stays unanswered.
    """
    papers = {query.paper.id: _untagged(query.paper) for query in queries if has_facet(query)}
    tagged = dict(zip(papers, annotator.annotate(list(papers.values())), strict=True))
    return {
        query.id: _tag_query(query, tagged[query.paper.id]) if has_facet(query) else query
        for query in queries
    }


def in_facet(vectors: PackedVectors, papers: Iterable[Paper], facet: Facet) -> PackedVectors:
    """Return only the vectors of each paper's sentences of ``facet``; all vectors if a paper has none.

    ``papers`` are in the order of ``vectors``. Objectives count as background, as in a query.
    """
    kept, lengths = [], []
    for paper, start, end in zip(papers, vectors.offsets[:-1], vectors.offsets[1:], strict=True):
        n_vectors = int(end - start)
        chosen: Sequence[int] | None = None
        if n_vectors and any(sentence.facet is not None for sentence in paper.sentences):
            aspect = Aspect(facets=(facet,))
            chosen = select_sentences(aspect, paper, n_vectors=n_vectors, unit=Unit.SENTENCE).like
        rows = list(chosen or range(n_vectors))
        kept += [int(start) + row for row in rows]
        lengths.append(len(rows))
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    return PackedVectors(vectors.rows[np.array(kept, dtype=np.int64)], offsets)


def _untagged(paper: Paper) -> Paper:
    """Return ``paper`` without its own facets, which a tagger would leave unchanged."""
    return replace(paper, sentences=tuple(replace(sentence, facet=None) for sentence in paper.sentences))


def _tag_query(query: EvalQuery, tagged: AnnotatedPaper) -> EvalQuery:
    aspect, n_vectors = Aspect(facets=(Facet(query.facet),)), len(tagged.encoded.sentences)
    selection = select_sentences(aspect, tagged.paper, n_vectors=n_vectors, unit=Unit.SENTENCE)
    return replace(query, paper=tagged.paper, selected=selection.like)
