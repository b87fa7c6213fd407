"""Selection of the query sentences that count, with focus, contrast and specificity weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from models.errors import SentenceSelectionError
from models.facets import matching_facets
from models.transport.problem import nearest_distances
from models.types import EncoderSpec, Facet, Paper, Unit
from service.search.words import QueryWords

# Measured: docs/decisions/retrieval/focus.md.
DEFAULT_FOCUS = 0.3
# A method is the same in another field; the meaning of a result depends on its topic.
_FACET_FOCUS = {Facet.METHOD: 0.4, Facet.RESULT: 0.0}

# The share of the chosen sentences' words; the words of the whole paper have the rest. Measured:
# docs/decisions/retrieval/shared-words.md. A result's topic also matters for words.
_CHOSEN_WORDS = 0.5
_FACET_WORDS = {Facet.RESULT: 0.0}

# Measured: docs/decisions/retrieval/contrast.md.
DEFAULT_CONTRAST = 0.4

# A sentence is specific if its nearest papers are far away: the nearest 1 in 20 of the sample.
_NEAREST_OF = 20
# The weight of specificity per unit of distance between unit vectors. Measured:
# docs/decisions/retrieval/specificity.md.
_SPECIFICITY = 8.0
_ROUNDING = 1e-5  # shorter vectors, as a share of those they were left of, are rounding errors
MAX_SPECIFICITY = 100.0


@dataclass(frozen=True, slots=True)
class Contrast:
    """The sentences that papers should differ from, given either by number or by facet, never by both.

    ``weight`` (0.01 to 1) is how much distance from these counts, relative to nearness to the others.
    """

    sentences: tuple[int, ...] | None = None
    facets: tuple[Facet, ...] = ()
    weight: float = DEFAULT_CONTRAST


@dataclass(frozen=True, slots=True)
class Aspect:
    """The sentences that papers should be similar to; the whole abstract if none are chosen.

    ``sentences`` are numbers in the whole abstract. ``focus`` (0 to 1) is the share of the other sentences'
    mean that is subtracted from each chosen vector: 0 is ASPIRE's own aspect query (semantics 3.5), ``None``
    the default of the facets. With ``unlike`` and nothing chosen, all sentences except the unlike ones count.
    """

    sentences: tuple[int, ...] | None = None
    facets: tuple[Facet, ...] = ()
    focus: float | None = None
    unlike: Contrast | None = None

    @property
    def names_facets(self) -> bool:
        """Whether the facets of the query's sentences decide what counts."""
        return bool(self.facets) or (self.unlike is not None and bool(self.unlike.facets))

    @property
    def turn(self) -> float:
        """The focus that applies; the smallest of several facets', as one of them may need the topic."""
        if self.focus is not None:
            return self.focus
        return min((_FACET_FOCUS.get(facet, DEFAULT_FOCUS) for facet in self.facets), default=DEFAULT_FOCUS)

    @property
    def chooses(self) -> bool:
        """Whether the sentences to be like were chosen, by number or by facet."""
        return self.sentences is not None or bool(self.facets)

    @property
    def chosen_words(self) -> float:
        """The share of the chosen sentences' words, 0 if none are chosen; the smallest of several facets'."""
        if self.sentences is not None:
            return _CHOSEN_WORDS
        return min((_FACET_WORDS.get(facet, _CHOSEN_WORDS) for facet in self.facets), default=0.0)


@dataclass(frozen=True, slots=True)
class Selection:
    """The numbers of the query sentences to be ``like`` and ``unlike``; ascending and disjoint."""

    like: tuple[int, ...]
    unlike: tuple[int, ...] = ()


def select_sentences(aspect: Aspect, paper: Paper, *, n_vectors: int, unit: Unit) -> Selection:
    """Return the sentences of ``paper`` that count, all among the first ``n_vectors``, which were encoded.

    ``like`` is empty if no sentence has a chosen facet, or if nothing was chosen and no sentence has the
    facet to be unlike. ``unlike`` alone is empty if only the sentences to be unlike are missing.
    Raises SentenceSelectionError.
    """
    unlike = aspect.unlike
    if unit is Unit.DOCUMENT:
        if aspect.chooses or unlike is not None:
            raise SentenceSelectionError(
                "This collection has one vector per paper, so neither sentences nor a facet can be chosen; "
                "leave them out, or encode it with a sentence encoder: `akin reindex --encoder minilm`."
            )
        return Selection(tuple(range(len(paper.sentences))))
    away = () if unlike is None else _chosen(unlike.sentences, unlike.facets, paper, n_vectors)
    if aspect.chooses:
        like = _chosen(aspect.sentences, aspect.facets, paper, n_vectors)
        if not like:
            return Selection(())
    else:
        like = tuple(number for number in range(n_vectors) if number not in away)
        if unlike is not None and not away:
            return Selection(())
    _expect_apart(aspect, like, away)
    return Selection(like, away)


def apply_focus(
    vectors: Float32[np.ndarray, "n_sentence dim"], selected: Sequence[int], *, focus: float
) -> Float32[np.ndarray, "n_query dim"]:
    """Return the ``selected`` vectors, turned away from the mean of the others by ``focus``; norms are kept.

    Every sentence vector pooled in context carries the paper's topic. Subtracting what the other sentences
    share leaves what the chosen ones say beyond the topic.
    """
    chosen = vectors[list(selected)]
    others = np.delete(vectors, list(selected), axis=0)
    if focus == 0 or len(others) == 0:
        return np.ascontiguousarray(chosen)
    turned = chosen - focus * others.mean(axis=0)
    norms, before = (np.linalg.norm(each, axis=1, keepdims=True) for each in (turned, chosen))
    # Of a chosen vector equal to the subtracted one only rounding is left; it stays unchanged.
    kept = norms > _ROUNDING * before
    scale = np.divide(before, norms, where=kept, out=np.zeros_like(norms))
    return np.ascontiguousarray(np.where(kept, turned * scale, chosen))


def default_specificity(spec: EncoderSpec) -> float:
    """Return the default weight of specificity; 0 for raw vectors, for which it was not measured."""
    return _SPECIFICITY if spec.normalised else 0.0


def specificity_weights(
    vectors: Float32[np.ndarray, "n_query dim"],
    rows: Float32[np.ndarray, "n_rows dim"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    *,
    specificity: float,
) -> Float64[np.ndarray, " n_query"] | None:
    """Return the log weight of each query sentence, by its distance from ``k`` sampled papers.

    It is ``specificity`` times the mean distance (L2) to the nearest 1 in 20 of the papers: a sentence that
    unrelated papers share, such as that code is available, is near in many. ``None``, which means equal
    weights, for a single sentence, for too few papers, and for a ``specificity`` of 0.
    """
    n_nearest = round((len(offsets) - 1) / _NEAREST_OF)
    if specificity == 0 or n_nearest == 0 or len(vectors) < 2:
        return None
    near = nearest_distances(vectors, rows, offsets)
    weights: Float64[np.ndarray, " n_query"] = specificity * np.sort(near, axis=1)[:, :n_nearest].mean(axis=1)
    return weights


# For each tuple of facets, a mask of the collection's rows that are sentences of these facets.
Rows = Mapping[tuple[Facet, ...], Bool[np.ndarray, " n_rows"]]
NO_ROWS: Final[Rows] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Part:
    """Query sentences that are compared with a paper by one transport plan.

    ``sentences[i]`` is the number, in the whole query abstract, of the sentence behind ``vectors[i]``.
    ``away`` says that papers should be unlike them. ``weight`` (over 0) is how much the part counts relative
    to other parts. ``seed`` is the number of the query paper in its list: the negatives if ``negative``, else
    the seeds. ``words`` count next to the vectors. If ``picked`` by number, all sentences count equally;
    otherwise the more specific ones count more. Only a paper's sentences of the facets ``beside`` are
    compared, all of them if it is empty.
    """

    vectors: Float32[np.ndarray, "n_query dim"]
    sentences: tuple[int, ...]
    away: bool = False
    weight: float = 1.0
    seed: int = 0
    negative: bool = False
    words: QueryWords | None = None
    picked: bool = False
    beside: tuple[Facet, ...] = ()


def query_parts(
    aspect: Aspect,
    selection: Selection,
    paper: Paper,
    vectors: Float32[np.ndarray, "n_sentence dim"],
    *,
    unit: Unit,
    weight: float = 1.0,
    seed: int = 0,
    negative: bool = False,
) -> list[Part]:
    """Return the part to be like, with its vectors turned by the focus, and the part to be unlike, if any.

    All parts of a ``negative`` paper are to be unlike. Vectors to be unlike keep their topic: not turned.
    """
    turn = 0.0 if negative or unit is Unit.DOCUMENT else aspect.turn
    kept = selection.like if unit is Unit.SENTENCE else (0,)
    chosen = apply_focus(vectors, kept, focus=turn)
    # The words of the whole paper would include those of the sentences to be unlike.
    apart = bool(selection.unlike) or (negative and aspect.chooses)
    words = QueryWords(paper, selection.like, 1.0 if apart else aspect.chosen_words)
    picked = aspect.sentences is not None
    parts = [Part(chosen, selection.like, negative, weight, seed, negative, words, picked)]
    if aspect.unlike is not None and selection.unlike:
        unlike, own = vectors[list(selection.unlike)], QueryWords(paper, selection.unlike, 1.0)
        away = weight * aspect.unlike.weight
        picked = aspect.unlike.sentences is not None
        parts.append(Part(unlike, selection.unlike, True, away, seed, negative, own, picked))
    return parts


def is_single_seed(parts: Sequence[Part]) -> bool:
    """Return whether all parts belong to one query paper."""
    return len({(part.seed, part.negative) for part in parts}) == 1


def facets_missing(aspect: Aspect, paper: Paper, *, n_vectors: int) -> str:
    """Return a message that names the requested facets that are missing and the facets the query has."""
    unlike = () if aspect.unlike is None else aspect.unlike.facets
    sought = aspect.facets or unlike
    kept = [sentence.facet for sentence in paper.sentences[:n_vectors]]
    past = [sentence.facet for sentence in paper.sentences[n_vectors:]]
    present = [facet for facet in Facet if facet in kept]
    has = f"it has {_listed(present, 'and')}" if present else "its sentences have no facet"
    unread = any(facet in past for each in sought for facet in matching_facets(each))
    limit = f" Sentences from number {n_vectors} on were not encoded." if unread else ""
    return f"No sentence of the query has the facet {_listed(sought, 'or')}; {has}.{limit}"


def _listed(facets: Sequence[Facet], last: str) -> str:
    names = [facet.value for facet in facets]
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _chosen(
    numbers: Sequence[int] | None, facets: Sequence[Facet], paper: Paper, n_vectors: int
) -> tuple[int, ...]:
    if numbers is None:
        return _of_facets(paper, facets, n_vectors)
    return _of_numbers(paper, numbers, n_vectors)


def _expect_apart(aspect: Aspect, like: Sequence[int], unlike: Sequence[int]) -> None:
    if both := sorted(set(like) & set(unlike)):
        facets = (*aspect.facets, *(aspect.unlike.facets if aspect.unlike else ()))
        why = " (objective counts as background)" if Facet.OBJECTIVE in facets else ""
        some = f"Sentence {both} is" if len(both) == 1 else f"Sentences {both[:20]} are"
        raise SentenceSelectionError(
            f"{some} chosen as both like and unlike{why}; choose sentences or facets that do not overlap."
        )
    if unlike and not like:
        raise SentenceSelectionError(
            "All sentences of the query are in unlike, so nothing is left to search for; leave one out."
        )


def _of_numbers(paper: Paper, numbers: Sequence[int], n_vectors: int) -> tuple[int, ...]:
    chosen = tuple(sorted(set(numbers)))
    n_sentences = len(paper.sentences)
    if not chosen or chosen[0] < 0 or chosen[-1] >= n_sentences:
        raise SentenceSelectionError(
            f"Chosen sentences {list(chosen)[:20]}; the abstract has {n_sentences}, "
            f"numbered 0 to {n_sentences - 1}."
        )
    kept = tuple(number for number in chosen if number < n_vectors)
    if not kept:
        raise SentenceSelectionError(
            f"Chosen sentences {list(chosen)[:20]} all lie past the encoder's token limit; "
            f"it reads the first {n_vectors} of this abstract."
        )
    return kept


def _of_facets(paper: Paper, facets: Sequence[Facet], n_vectors: int) -> tuple[int, ...]:
    """Return the sentences of any of the facets; objectives count as background (CSFCube, semantics 3.5)."""
    if all(sentence.facet is None for sentence in paper.sentences):
        raise SentenceSelectionError(
            "The sentences of the query paper have no facets; choose sentences by number instead."
        )
    wanted = {match for facet in facets for match in matching_facets(facet)}
    return tuple(i for i, sentence in enumerate(paper.sentences[:n_vectors]) if sentence.facet in wanted)
