"""The domain types of Akin, shared by every layer.

Axis names used in shapes: ``n_query`` (query sentences), ``n_sentence`` (sentences of one paper),
``n_rows`` (sentence vectors end to end over many papers), ``n_papers``, ``k`` (candidates), ``dim``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int64

# Receives the name of a stage, the amount done in it, and the amount to do in it, if known.
ProgressFn = Callable[[str, int, int | None], None]


def ignore_progress(*_: object) -> None:
    """Ignore progress: the ``ProgressFn`` for callers that do not show it."""


class Facet(StrEnum):
    """The function of a sentence in its abstract (CSFCube, section 3; CSAbstruct)."""

    BACKGROUND = "background"
    OBJECTIVE = "objective"
    METHOD = "method"
    RESULT = "result"
    OTHER = "other"


class Unit(StrEnum):
    """The unit of text that one vector of an encoder represents."""

    SENTENCE = "sentence"
    DOCUMENT = "document"


class Precision(StrEnum):
    """The number format an encoder computes in; vectors leave it as float32 either way."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"  # matrix products on a CPU only
    AUTO = "auto"  # bfloat16 if the device multiplies it natively; resolved before an encoder computes


# The precisions that an encoder can have on any device; AUTO becomes one of them.
NUMBER_FORMATS = (Precision.FLOAT32, Precision.BFLOAT16)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of an abstract: ``abstract[start:end] == text``; offsets count Unicode characters."""

    text: str
    start: int
    end: int
    facet: Facet | None = None


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper as in the corpus, with its abstract split into sentences.

    ``sentences`` is never empty for a paper from a reader or a query; positions in it, from 0, are the
    sentence numbers in all answers. ``author_ids`` are the ids of the authors in a reviewing system, such as
    ``~Ada_Quill1``; no collection stores them.
    """

    id: str
    title: str
    abstract: str
    sentences: tuple[Sentence, ...]
    year: int | None = None
    venue: str | None = None
    authors: tuple[str, ...] = ()
    url: str | None = None
    doi: str | None = None
    fields: tuple[str, ...] = ()
    author_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EncodedPaper:
    """The vectors of one paper.

    ``sentences`` has shape (n_kept, dim): rows belong to the first ``n_kept`` sentences, in order
    (for a document encoder: one row, the whole abstract). ``dropped_sentences`` counts the sentences beyond
    the token limit (semantics 3.1). ``document`` has shape (dim,). ``layers`` are the same sentences pooled
    from the requested hidden layers, in that order and not normalised. ``openings`` are pooled from the first
    few WordPieces of each sentence, which show its function. Both are ``None`` if no layer was requested.
    """

    sentences: Float32[np.ndarray, "n_sentence dim"]
    document: Float32[np.ndarray, " dim"]
    dropped_sentences: int
    layers: Float32[np.ndarray, "n_layers n_sentence dim"] | None = None
    openings: Float32[np.ndarray, "n_layers n_sentence dim"] | None = None


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """The properties of an encoder that a snapshot stores, to refuse any other encoder.

    ``fingerprint`` is the SHA-256 (hex) of everything that decides the vectors: weights, vocabulary, pooling.
    ``normalised`` says whether vectors have unit L2 norm; the encoder decides this, and nothing changes it
    later. ``tau`` is the temperature that the encoder was tuned at, in units of distance; ``None`` is the
    default. It does not affect vectors, so specs that differ only in ``tau`` are equal.
    """

    name: str
    fingerprint: str
    dim: int
    normalised: bool
    unit: Unit
    tau: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PackedVectors:
    """Vectors of many papers end to end: paper ``i`` owns ``rows[offsets[i]:offsets[i + 1]]``.

    ``rows`` has shape (n_rows, dim), float16 or float32; ``offsets`` has shape (n_papers + 1,).
    """

    rows: np.ndarray
    offsets: Int64[np.ndarray, " n_papers_plus_1"]

    def gather(
        self, positions: Int64[np.ndarray, " k"]
    ) -> tuple[Float32[np.ndarray, "n_rows dim"], Int64[np.ndarray, " k_plus_1"]]:
        """Return the vectors of the papers at ``positions``, end to end, with their offsets."""
        rows, offsets = rows_of(self.offsets, positions)
        return self.rows[rows].astype(np.float32), offsets


def rows_of(
    offsets: Int64[np.ndarray, " n_papers_plus_1"], positions: Int64[np.ndarray, " k"]
) -> tuple[Int64[np.ndarray, " n_rows"], Int64[np.ndarray, " k_plus_1"]]:
    """Return the row numbers of the papers at ``positions``, end to end, with their offsets."""
    starts = offsets[positions]
    lengths = offsets[positions + 1] - starts
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.repeat(starts - ends[:-1], lengths) + np.arange(ends[-1]), ends


@dataclass(frozen=True, slots=True)
class Hits:
    """The nearest rows of an index for each query vector, best first.

    ``rows`` (n_query, k) are row numbers, padded with -1 if the index has fewer than k allowed rows;
    ``scores`` (n_query, k) are negative L2 distances, -inf for a row of -1.
    """

    rows: Int64[np.ndarray, "n_query k"]
    scores: Float32[np.ndarray, "n_query k"]


@dataclass(frozen=True, slots=True)
class Filters:
    """The papers that may be returned; ``None`` or empty means any. Years are inclusive.

    ``has_facets`` requires a sentence of each facet; a stated objective counts as background too. ``authors``
    are whole names as spelled in the corpus, in any case; a paper needs one of them.
    """

    year_from: int | None = None
    year_to: int | None = None
    venues: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    has_facets: tuple[Facet, ...] = ()
    exclude_ids: frozenset[str] = frozenset()
    authors: tuple[str, ...] = ()
    ids: frozenset[str] = frozenset()

    def without(self, paper_id: str) -> "Filters":
        """Return the same filters with this paper excluded."""
        return replace(self, exclude_ids=self.exclude_ids | {paper_id})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A paper found by retrieval: its position in the snapshot and its single-match score."""

    position: int
    score: float


class Alignment(NamedTuple):
    """The weight of a pair of a query sentence and a result sentence; ``distance`` is L2.

    Both sentences are ``None`` if an encoder has one vector for a whole paper. ``seed`` is the number of the
    query paper in the list of seeds, or in the list of negatives if ``negative``.
    """

    query_sentence: int | None
    sentence: int | None
    weight: float
    distance: float
    seed: int = 0
    negative: bool = False


@dataclass(frozen=True, slots=True)
class Omitted:
    """The ``count`` lightest alignments of a result with one seed, left out to bound its size.

    ``weight`` is the sum of their weights, ``distance`` their weighted mean distance; ``seed`` and
    ``negative`` are those of the alignments, ``seed`` is ``None`` for those of all other seeds.
    """

    count: int
    weight: float
    distance: float
    seed: int | None = 0
    negative: bool = False


@dataclass(frozen=True, slots=True)
class Highlight:
    """A sentence of a result (``None``: all of it), its place in the abstract, and its share of the match."""

    sentence: int | None
    start: int
    end: int
    weight: float
    marked: bool  # one of the fewest that make up most of the match


@dataclass(frozen=True, slots=True)
class SharedWord:
    """A word that query and result share, as written in the result, and its share among all shared words.

    The absolute shares of all shared words sum to 1; words of the negatives have shares below 0. Words of any
    abstract, such as "we" and "propose", have a share but are not listed.
    """

    term: str
    share: float


@dataclass(frozen=True, slots=True)
class MatchedWords:
    """The distance of query and result by words, its weight, and the shared words that count most.

    ``distance`` is 1 minus the cosine of two tf-idf vectors; if a query has several parts, it is the sum of
    their distances, each times the weight of its part. ``weight`` is 0 if words do not count.
    """

    weight: float = 0.0
    distance: float = 0.0
    terms: tuple[SharedWord, ...] = ()


NO_WORDS = MatchedWords()


class StrengthLabel(StrEnum):
    """The strength of a match, in a word."""

    STRONG = "strong"
    FAIR = "fair"
    WEAK = "weak"


@dataclass(frozen=True, slots=True)
class Strength:
    """The strength of a match: sampled papers' share that is farther from their nearest paper, relatively.

    A result is ``related`` if it is no farther than the fifth nearest papers of nearly all of them.
    """

    label: StrengthLabel
    nearer_than: float
    related: bool = True


@dataclass(frozen=True, slots=True)
class RankedPaper:
    """One result: ``score == -sum(weight * distance)`` over ``alignments``, ``omitted`` and ``words``.

    The equation holds within 1e-5; higher is better. ``omitted`` is empty unless the paper or the query is
    long. ``converged`` says whether the transport plan met its tolerance; ``gap`` bounds how far the
    objective of the plans is from its minimum, in units of distance, and is 0 for scorers without transport.
    ``strength`` is ``None`` if the collection is too small to estimate it.
    """

    paper: Paper
    score: float
    alignments: tuple[Alignment, ...] = ()
    highlights: tuple[Highlight, ...] = ()
    converged: bool = True
    gap: float = 0.0
    omitted: tuple[Omitted, ...] = ()
    words: MatchedWords = NO_WORDS
    strength: Strength | None = None
