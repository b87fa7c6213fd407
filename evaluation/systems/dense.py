"""Dense systems: a query's sentence vectors against those of its pool, by any scorer of models.transport."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float32, Float64, Int64

from evaluation.collection import EvalQuery
from evaluation.systems.system import Choice, DenseSystem
from evaluation.systems.vectors import CollectionVectors
from models.transport import SERVING, Scorer, TransportSettings, score_papers
from models.types import NO_WORDS, EncodedPaper, Facet, Paper, RankedPaper, Unit
from service.search.aspect import Aspect, Part, apply_focus
from service.search.explain import explain as explain_plan
from service.search.words import QueryVectors, QueryWords

# Papers compared in one call; bounds memory if the pool is a whole collection.
_BLOCK_PAPERS = 8_192


def score_pool(
    system: DenseSystem,
    vectors: CollectionVectors,
    query: EvalQuery,
    positions: Int64[np.ndarray, " k"],
    *,
    settings: TransportSettings = SERVING,
    words: QueryVectors | None = None,
    log_weights: Float64[np.ndarray, " n_query"] | None = None,
) -> Float64[np.ndarray, " k"]:
    """Return the score of each paper of the pool, all -inf if no selected sentence has a vector.

    ``words`` are the query's word vectors, if words count; ``log_weights`` are log weights of its sentences.
    """
    encoded = vectors.queries[query.id]
    if system.scorer is None:
        away = vectors.documents[positions] - encoded.document
        distances: Float64[np.ndarray, " k"] = np.linalg.norm(away.astype(np.float64), axis=1)
        return -distances
    chosen = query_vectors(query, encoded, system.choice)
    if len(chosen) == 0:
        return np.full(len(positions), -np.inf)
    scores = np.empty(len(positions))
    for start in range(0, len(positions), _BLOCK_PAPERS):
        block = slice(start, start + _BLOCK_PAPERS)
        rows, offsets = vectors.papers.gather(positions[block])
        plans = score_papers(
            chosen, rows, offsets, scorer=system.scorer, settings=settings, log_weights=log_weights
        )
        scores[block] = plans.scores
    return scores if words is None else scores - words.weight * words.distances(positions)[0]


def explain(
    system: DenseSystem,
    vectors: CollectionVectors,
    query: EvalQuery,
    ranked: Mapping[int, Paper],
    *,
    settings: TransportSettings = SERVING,
    words: QueryVectors | None = None,
    log_weights: Float64[np.ndarray, " n_query"] | None = None,
) -> tuple[RankedPaper, ...]:
    """Return the papers ``ranked`` (by position), in that order, with the alignments behind their scores.

    ``system`` must have a scorer, and at least one sentence of the query must be compared.
    """
    encoded = vectors.queries[query.id]
    chosen = query_vectors(query, encoded, system.choice)
    rows, offsets = vectors.papers.gather(np.array(list(ranked), dtype=np.int64))
    scorer = system.scorer or Scorer.OT
    plans = score_papers(chosen, rows, offsets, scorer=scorer, settings=settings, log_weights=log_weights)
    numbers = chosen_sentences(query, len(encoded.sentences), system.choice)
    part = Part(chosen, tuple(numbers))
    whole = np.ones(1)  # the weight of the only part
    distances = np.zeros(len(ranked)) if words is None else words.distances(np.array(list(ranked)))[0]
    return tuple(
        explain_plan(
            paper,
            [part],
            [(0, plans[i])],
            whole,
            unit=Unit.SENTENCE,
            words=NO_WORDS
            if words is None
            else words.matched(position, whole, distance=float(distances[i]), paper=paper),
        )
        for i, (position, paper) in enumerate(ranked.items())
    )


def picks_sentences(query: EvalQuery, choice: Choice) -> bool:
    """Whether sentences were chosen by number, not by facet: they then count alike, as in the service."""
    return query.selected is not None and choice is not Choice.WHOLE and _aspect(query).sentences is not None


def query_words(query: EvalQuery, choice: Choice) -> QueryWords:
    """Return the words of the query that count, as in the service."""
    if query.selected is None or choice is Choice.WHOLE:
        return QueryWords(query.paper)
    return QueryWords(query.paper, tuple(query.selected), _aspect(query).chosen_words)


def chosen_sentences(query: EvalQuery, n_vectors: int, choice: Choice) -> list[int]:
    """Return the numbers of the compared query sentences; sentences beyond the token limit have no vector."""
    if query.selected is None or choice is Choice.WHOLE:
        return list(range(n_vectors))
    return sorted({number for number in query.selected if number < n_vectors})


def query_vectors(
    query: EvalQuery, encoded: EncodedPaper, choice: Choice
) -> Float32[np.ndarray, "n_query dim"]:
    """Return the vectors of the query's sentences that are compared."""
    kept = chosen_sentences(query, len(encoded.sentences), choice)
    if not kept or query.selected is None or choice is not Choice.FOCUS:
        return encoded.sentences[kept]
    return apply_focus(encoded.sentences, kept, focus=_aspect(query).turn)


def _aspect(query: EvalQuery) -> Aspect:
    """Return the query's selection, by facet or by number."""
    if query.facet in list(Facet) and not query.by_number:
        return Aspect(facets=(Facet(query.facet),))
    return Aspect(sentences=query.selected)
