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

# Gets a stage in words, what is done in it, and what there is to do in it, if that is known.
ProgressFn = Callable[[str, int, int | None], None]


def unseen(*_: object) -> None:
    """Progress that nobody looks at."""


class Facet(StrEnum):
    """What a sentence does in its abstract (CSFCube, section 3; CSAbstruct)."""

    BACKGROUND = "background"
    OBJECTIVE = "objective"
    METHOD = "method"
    RESULT = "result"
    OTHER = "other"


class Unit(StrEnum):
    """What one vector of an encoder stands for."""

    SENTENCE = "sentence"
    DOCUMENT = "document"


class Precision(StrEnum):
    """The number format an encoder computes in; vectors leave it as float32 either way."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"  # a CPU's products only
    AUTO = "auto"  # bfloat16 where the device multiplies it natively; an encoder's own is never this


# What an encoder computes in on any device: AUTO is one of these.
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
    """A paper as the corpus gave it, its abstract split into sentences.

    ``sentences`` is never empty for a paper that came from a reader or a query; positions in it, from 0,
    are the sentence numbers every answer speaks of. ``author_ids`` are what a reviewing system calls the
    authors, such as ``~Ada_Quill1``; no collection keeps them.
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
    (for a document encoder: one row, the whole abstract). ``dropped_sentences`` counts those past the token
    limit (semantics 3.1). ``document`` has shape (dim,). ``layers`` are the same sentences pooled from the
    hidden layers that were asked for, in that order and as they are, and ``openings`` the first few
    WordPieces of each: where a sentence says what it does. Both are ``None`` where no layer was asked for.
    """

    sentences: Float32[np.ndarray, "n_sentence dim"]
    document: Float32[np.ndarray, " dim"]
    dropped_sentences: int
    layers: Float32[np.ndarray, "n_layers n_sentence dim"] | None = None
    openings: Float32[np.ndarray, "n_layers n_sentence dim"] | None = None


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """What a snapshot must remember of its encoder to refuse another one.

    ``fingerprint`` is the SHA-256 (hex) of everything that decides the vectors: weights, vocabulary, pooling.
    ``normalised`` says whether vectors have unit L2 norm; the encoder decides it once and nothing undoes it.
    ``tau`` is the temperature it was tuned at, in units of distance; ``None``: the default suits it. It
    decides no vector, and so encoders that differ in it alone are equal.
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
        """The vectors of the papers at ``positions``, end to end, with their offsets."""
        rows, offsets = rows_of(self.offsets, positions)
        return self.rows[rows].astype(np.float32), offsets


def rows_of(
    offsets: Int64[np.ndarray, " n_papers_plus_1"], positions: Int64[np.ndarray, " k"]
) -> tuple[Int64[np.ndarray, " n_rows"], Int64[np.ndarray, " k_plus_1"]]:
    """The numbers of the rows that the papers at ``positions`` own, end to end, with their offsets."""
    starts = offsets[positions]
    lengths = offsets[positions + 1] - starts
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.repeat(starts - ends[:-1], lengths) + np.arange(ends[-1]), ends


@dataclass(frozen=True, slots=True)
class Hits:
    """Nearest rows of an index for each query vector, best first.

    ``rows`` (n_query, k) are row numbers, -1 where the index held fewer than k allowed rows; ``scores``
    (n_query, k) are negative L2 distances, -inf beside a -1.
    """

    rows: Int64[np.ndarray, "n_query k"]
    scores: Float32[np.ndarray, "n_query k"]


@dataclass(frozen=True, slots=True)
class Filters:
    """Which papers may be returned; ``None`` or empty means any. Years are inclusive.

    ``has_facets`` asks for a sentence of each; a stated objective counts as background too. ``authors``
    are whole names as the corpus spells them, whatever their case; one of them suffices.
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
        """The same, but that this paper may not be returned."""
        return replace(self, exclude_ids=self.exclude_ids | {paper_id})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A paper that retrieval proposes: its position in the snapshot and its single-match score."""

    position: int
    score: float


class Alignment(NamedTuple):
    """How much one query sentence and one result sentence count together; ``distance`` is L2.

    Both are ``None`` where an encoder gives one vector for a whole paper. ``seed`` is the number of the query
    paper in its list, which is that of the negatives where ``negative``.
    """

    query_sentence: int | None
    sentence: int | None
    weight: float
    distance: float
    seed: int = 0
    negative: bool = False


@dataclass(frozen=True, slots=True)
class Omitted:
    """The lightest alignments of a result, left out to bound its size: ``count`` of them, taken together.

    ``weight`` is the sum of their weights, ``distance`` their mean distance by weight.
    """

    count: int
    weight: float
    distance: float


@dataclass(frozen=True, slots=True)
class Highlight:
    """A sentence of a result, where it stands in the stored abstract, and its share of the match (0 to 1).

    ``sentence`` is ``None`` where the whole abstract is meant.
    """

    sentence: int | None
    start: int
    end: int
    weight: float


@dataclass(frozen=True, slots=True)
class SharedWord:
    """A word that query and result share, as the result writes it, and its share of what they all count.

    The shares of all shared words, without their signs, sum to 1; under 0 are words of what the result should
    be unlike. Words of any abstract, such as "we" and "propose", have a share and are not named.
    """

    term: str
    share: float


@dataclass(frozen=True, slots=True)
class MatchedWords:
    """How far apart query and result are by words, what that weighs, and the shared ones that count most.

    ``distance`` is 1 minus the cosine of two tf-idf vectors; where a query has several parts, the sum over
    them of how much each counts times its distance. ``weight`` is 0 where words do not count.
    """

    weight: float = 0.0
    distance: float = 0.0
    terms: tuple[SharedWord, ...] = ()


NO_WORDS = MatchedWords()


class StrengthLabel(StrEnum):
    """How strong a match is, in a word."""

    STRONG = "strong"
    FAIR = "fair"
    WEAK = "weak"


@dataclass(frozen=True, slots=True)
class Strength:
    """How strong a match is beside those that the collection's own papers have in it.

    ``nearer_than`` is the share of these papers, of a sample, that are farther from their nearest paper than
    the result is from the query, each distance taken as a share of what is usual for its query.
    """

    label: StrengthLabel
    nearer_than: float


@dataclass(frozen=True, slots=True)
class RankedPaper:
    """One result: ``score == -sum(weight * distance)`` over ``alignments``, ``omitted`` and ``words``.

    That holds within 1e-5; higher is better. ``omitted`` is empty unless the paper or the query is long.
    ``converged`` says whether the scorer's plan met its tolerance, ``gap`` how far at most what the plans
    minimise is from its least, in units of distance: 0 for scorers without transport. ``strength`` is
    ``None`` where the collection is too small to tell.
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
