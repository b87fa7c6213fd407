"""Sentence search: finds the sentences of other papers nearest to a sentence, by meaning or by function."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from jaxtyping import Bool, Float32

from indexer.index.vector_index import JoinedIndex, VectorIndex
from indexer.snapshot.snapshot import Snapshot
from models.errors import MissingVectorsError, SentenceSelectionError
from models.text.sentences import normalised_text
from models.types import Facet, Filters, Paper, Unit
from service.answer_warnings import AnswerWarning, WarningCode, coverage_warning, warning
from service.context import check_deadline, stage
from service.resolve.filter_names import no_such_name
from service.resolve.identifiers import is_name
from service.resolve.text_query import one_sentence, text_warnings
from service.search.engine import SearchEngine
from service.search.query import REASON_DETAILS, Reason, empty_page_reason
from service.search.reachable import ReachablePapers, answer_reachable

# The factor by which more rows are requested if repeated sentences leave too few, and the most rows: a
# publisher's notice may be in every abstract, and reading a row's text takes 40 us.
_WIDEN = 2
MAX_ROWS = 5_000


class Likeness(StrEnum):
    """How sentences are compared: by what they are about, or by what they do (state a gap, name a result)."""

    MEANING = "meaning"
    FUNCTION = "function"


@dataclass(frozen=True, slots=True)
class SentenceQuery:
    """A search for sentence number ``sentence``, from 0, of the indexed ``paper_id``, or else for ``text``.

    ``text`` counts as one sentence without context. ``facets`` are those a result may have (none: any);
    background includes objective. ``limit`` counts sentences.
    """

    text: str = ""
    paper_id: str | None = None
    sentence: int = 0
    by: Likeness = Likeness.MEANING
    facets: tuple[Facet, ...] = ()
    filters: Filters = field(default_factory=Filters)
    limit: int = 10


@dataclass(frozen=True, slots=True)
class FoundSentence:
    """Sentence number ``sentence`` of ``paper``, at an L2 ``distance`` from the query sentence."""

    paper: Paper
    sentence: int
    distance: float


@dataclass(frozen=True, slots=True)
class SentenceAnswer:
    """Sentences, nearest first, and the query as it was understood: sentence ``sentence`` of ``query``.

    A query given as text is the only sentence of a paper without id. If there are no results, ``reason`` and
    ``detail``, the reason in words, are set. ``coverage`` is the share of the collection's papers that could
    be searched. ``took_ms`` is wall time in milliseconds.
    """

    query: Paper
    sentence: int
    by: Likeness
    results: tuple[FoundSentence, ...]
    generation: str
    reason: Reason | None
    detail: str | None
    warnings: tuple[AnswerWarning, ...]
    took_ms: float
    coverage: float = 1.0


@dataclass(frozen=True, slots=True)
class _ResolvedQuery:
    """A resolved query: its sentence with the vector, and the filters for the papers of results."""

    paper: Paper
    sentence: int
    vector: Float32[np.ndarray, "1 dim"]
    filters: Filters
    warnings: tuple[AnswerWarning, ...] = ()


def search_sentences(
    engine: SearchEngine, query: SentenceQuery, *, most_rows: int = MAX_ROWS
) -> SentenceAnswer:
    """Return the sentences nearest to the query sentence, none from the query's paper, each wording once.

    Of sentences with the same wording only the nearest is returned; at most ``most_rows`` are read to find
    different ones. Raises PaperNotFoundError, SentenceSelectionError, ShardAwayError; MissingVectorsError if
    the collection has no vectors of sentences, or of functions; EncoderMismatchError if a text cannot be
    compared with them; DeadlineError.
    """
    return answer_reachable(
        engine.snapshot, lambda reachable: _search(engine, query, reachable, most_rows=most_rows)
    )


def _search(
    engine: SearchEngine, query: SentenceQuery, reachable: ReachablePapers, *, most_rows: int
) -> SentenceAnswer:
    started = time.perf_counter()
    snapshot = engine.snapshot
    if snapshot.manifest.encoder.unit is Unit.DOCUMENT:
        raise MissingVectorsError(
            "This collection has one vector per paper and none for sentences; search for papers, or encode "
            "it with a sentence encoder, such as minilm: `akin reindex --encoder minilm`."
        )
    index = snapshot.index if query.by is Likeness.MEANING else snapshot.function_index
    resolved = _of_paper(engine, query) if query.paper_id is not None else _of_text(engine, query)
    check_deadline()
    allowed = _allowed_rows(snapshot, resolved.filters, query.facets, reachable)
    some = snapshot.n_rows > 0 if allowed is None else allowed.any()
    reason, detail = (None, None) if some else _why_none(snapshot, resolved.filters, query)
    results, repeated = _nearest(
        snapshot, index, resolved.vector, allowed=allowed, limit=query.limit, most_rows=most_rows
    )
    repeats = (warning(WarningCode.REPEATED_SENTENCES, repeated),) if repeated else ()
    return SentenceAnswer(
        query=resolved.paper,
        sentence=resolved.sentence,
        by=query.by,
        results=results,
        generation=snapshot.generation,
        reason=reason,
        detail=detail,
        warnings=(*resolved.warnings, *repeats, *coverage_warning(reachable.coverage)),
        took_ms=(time.perf_counter() - started) * 1000,
        coverage=reachable.coverage,
    )


def _of_paper(engine: SearchEngine, query: SentenceQuery) -> _ResolvedQuery:
    """Resolve an indexed sentence, with filters that keep its paper out of the answer."""
    snapshot = engine.snapshot
    position = engine.names.position(query.paper_id or "")
    paper = snapshot.paper(position)
    of_kind = snapshot.vectors if query.by is Likeness.MEANING else snapshot.function_vectors
    vectors = of_kind(position).astype(np.float32)
    if not 0 <= query.sentence < len(paper.sentences):
        raise SentenceSelectionError(
            f"The abstract has {len(paper.sentences)} sentences, numbered 0 to {len(paper.sentences) - 1}; "
            "the given number is not among them."
        )
    if query.sentence >= len(vectors):
        raise SentenceSelectionError(
            f"Sentence {query.sentence} lies past the encoder's token limit; it reads the first "
            f"{len(vectors)} of this abstract. Paste the sentence as text instead."
        )
    return _ResolvedQuery(
        paper,
        query.sentence,
        vectors[query.sentence : query.sentence + 1],
        query.filters.without(paper.id),
    )


def _of_text(engine: SearchEngine, query: SentenceQuery) -> _ResolvedQuery:
    if not query.text.strip():
        raise SentenceSelectionError(
            "The query text is blank; give a sentence, or a paper's id and a number."
        )
    if is_name(query.text):
        engine.names.position(query.text)
        raise SentenceSelectionError(
            "The text is the identifier of a paper; give it as paper_id, with the number of a sentence."
        )
    paper = one_sentence(query.text)
    if query.by is Likeness.MEANING:
        with stage("encode"):
            (encoded,) = engine.annotator.encoder.encode([paper])
        vector = encoded.sentences
    else:
        vector = _function_vector(engine, paper)
    return _ResolvedQuery(paper, 0, vector, query.filters, text_warnings(paper.abstract))


def _function_vector(engine: SearchEngine, paper: Paper) -> Float32[np.ndarray, "1 dim"]:
    """Return the function vector of the only sentence of ``paper``, by the model of the collection."""
    annotator = engine.annotator
    engine.snapshot.manifest.expect_functions(annotator.function_spec)
    with stage("encode"):
        (annotated,) = annotator.annotate([paper])
    if annotated.functions is None:  # never, for a collection with function vectors
        raise MissingVectorsError(
            "The loaded encoder has no function encoder; load the encoder of the collection."
        )
    return annotated.functions


def _allowed_rows(
    snapshot: Snapshot, filters: Filters, facets: Sequence[Facet], reachable: ReachablePapers
) -> Bool[np.ndarray, " n_rows"] | None:
    """Return which rows may be results; ``None`` for all."""
    papers = reachable.within(snapshot.allowed_papers(filters))
    allowed = None if papers.all() else snapshot.rows_of_papers(papers)
    if facets:
        of_facet = snapshot.rows_of_facets(facets)
        allowed = of_facet if allowed is None else allowed & of_facet
    return allowed


@stage("candidates")
def _nearest(
    snapshot: Snapshot,
    index: VectorIndex | JoinedIndex,
    vector: Float32[np.ndarray, "1 dim"],
    *,
    allowed: Bool[np.ndarray, " n_rows"] | None,
    limit: int,
    most_rows: int,
) -> tuple[tuple[FoundSentence, ...], int]:
    """Return the ``limit`` nearest allowed rows with different wording, nearest first, ties in row order.

    The number returned with them counts repeated rows if ``most_rows`` ended the search early, else it is 0.
    """
    n_allowed = snapshot.n_rows if allowed is None else int(np.count_nonzero(allowed))
    if n_allowed == 0:
        return (), 0
    n_hits, n_most = min(limit, n_allowed), min(most_rows, n_allowed)
    wordings: dict[int, str] = {}  # by row, as a wider search finds the same rows again
    nearest: dict[str, FoundSentence] = {}
    while True:
        hits = index.search(vector, n_hits, allowed=allowed)
        rows, scores = hits.rows[0].tolist(), hits.scores[0].tolist()
        for row, score in zip(rows, scores, strict=True):
            if row not in wordings:
                sentence = _sentence_at(snapshot, row, distance=-score)
                wordings[row] = said = normalised_text(sentence.paper.sentences[sentence.sentence].text)
                if said not in nearest or sentence.distance < nearest[said].distance:
                    nearest[said] = sentence
        found = [nearest[said] for said in dict.fromkeys(wordings[row] for row in rows)]
        if len(found) >= limit:
            return tuple(found[:limit]), 0
        if n_hits == n_most:
            return tuple(found), n_hits - len(found) if n_most < n_allowed else 0
        n_hits = min(n_hits * _WIDEN, n_most)


def _sentence_at(snapshot: Snapshot, row: int, *, distance: float) -> FoundSentence:
    position = int(snapshot.paper_of_row[row])
    return FoundSentence(snapshot.paper(position), row - int(snapshot.offsets[position]), distance)


def _why_none(snapshot: Snapshot, filters: Filters, query: SentenceQuery) -> tuple[Reason, str]:
    """Return why there are no results, and the reason in words."""
    reason = empty_page_reason(query.filters)
    if snapshot.allowed_papers(filters).any():
        reason = Reason.NO_SENTENCE_OF_THAT_FACET
    elif unknown := no_such_name(snapshot, filters):
        return reason, unknown
    return reason, REASON_DETAILS[reason]
