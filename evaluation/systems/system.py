"""A system as a value: what it reads of a query and how it scores; its name says the same.

    bm25, tfidf, word2vec, word2vec-tfidf      title and abstract as the query
    bm25-facet, tfidf-facet, ...               the selected sentences alone as the query
    ENCODER:alone:SCORER                       the selected sentences, each encoded by itself
    ENCODER:SCORER                             the selected sentences, read in context (semantics 3.5)
    ENCODER:SCORER:whole                       all sentences of the query
    ENCODER:SCORER:focus                       the selected sentences, turned away from the rest
    ENCODER:SCORER:tagged, ...:focus:tagged    selected by the facets that the encoder's tagger gives
    ENCODER:SCORER:same-facet, ...             beside the candidates' sentences of the query's facet alone
    ...:words                                  those in context, as in the service: shared words count
                                               beside the vectors, and specific sentences more than others
    ENCODER:document                           L2 distance of the document vectors

Candidates count with title and whole abstract, but under ``same-facet``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from models.errors import UnknownNameError
from models.transport import Scorer

TEXT_SYSTEMS = ("bm25", "tfidf", "word2vec", "word2vec-tfidf")
_FACET = "-facet"


class Choice(StrEnum):
    """Which of the query's sentence vectors are compared."""

    SELECTED = "selected"  # those the query selects (ASPIRE's aspect query, semantics 3.5)
    WHOLE = "whole"  # all (ASPIRE's whole-abstract query, semantics 2)
    FOCUS = "focus"  # the selected, turned away from the rest, as the service does


@dataclass(frozen=True, slots=True)
class TextSystem:
    """One of TEXT_SYSTEMS; ``facet``: with the selected sentences alone as the query."""

    method: str
    facet: bool = False

    def __str__(self) -> str:
        return self.method + _FACET * self.facet


@dataclass(frozen=True, slots=True)
class DenseSystem:
    """How an encoder's vectors become a score; no ``scorer``: the distance of the two document vectors.

    ``alone``: each sentence was encoded by itself. ``tagged``: the query's sentences are selected by a
    tagger's facets, not by those the collection gives. ``same_facet``: of candidates only the sentences of
    the query's facet are compared, all where a candidate has none. ``words``: shared words count beside the
    vectors, and specific sentences more than others, as in the service.
    """

    scorer: Scorer | None
    choice: Choice = Choice.SELECTED
    alone: bool = False
    tagged: bool = False
    same_facet: bool = False
    words: bool = False

    def __str__(self) -> str:
        """What stands after the encoder in a system's name."""
        if self.scorer is None:
            return "document"
        parts = {
            "alone": self.alone,
            str(self.scorer): True,
            str(self.choice): self.choice is not Choice.SELECTED,
            "tagged": self.tagged,
            "same-facet": self.same_facet,
            "words": self.words,
        }
        return ":".join(name for name, is_there in parts.items() if is_there)


@dataclass(frozen=True, slots=True)
class VectorSystem:
    """An encoder, by name or folder, and how its vectors are compared."""

    encoder: str
    dense: DenseSystem

    @property
    def has_plan(self) -> bool:
        """Whether its scores come from a plan between sentences that can be shown.

        Not under ``tagged``, where beside a query stand the sentences that the collection chooses, nor under
        ``same_facet``, where some of a candidate's sentences are left out.
        """
        return self.dense.scorer is not None and not self.dense.tagged and not self.dense.same_facet

    def __str__(self) -> str:
        return f"{self.encoder}:{self.dense}"


System = TextSystem | VectorSystem


def _dense_systems() -> list[DenseSystem]:
    context = [
        replace(DenseSystem(scorer), **given)
        for given in (
            {},
            {"choice": Choice.WHOLE},
            {"choice": Choice.FOCUS},
            {"tagged": True},
            {"choice": Choice.FOCUS, "tagged": True},
            {"same_facet": True},
        )
        for scorer in Scorer
    ]
    alone = [DenseSystem(scorer, alone=True) for scorer in Scorer]
    words = [replace(system, words=True) for system in context if not system.same_facet]
    return [DenseSystem(None), *alone, *context, *words]


# Every way to compare an encoder's vectors, by what stands after the encoder in a system's name.
DENSE: Mapping[str, DenseSystem] = MappingProxyType({str(system): system for system in _dense_systems()})


def parse(name: str) -> System:
    """The system of a name; its encoder is not looked for. Raises UnknownNameError."""
    method = name.removesuffix(_FACET)
    if method in TEXT_SYSTEMS:
        return TextSystem(method, facet=name != method)
    # Encoders may be folders, whose names hold anything; of two endings that fit, the longer is meant.
    for ending in sorted(DENSE, key=len, reverse=True):
        if name.endswith(f":{ending}") and len(name) > len(ending) + 1:
            return VectorSystem(name.removesuffix(f":{ending}"), DENSE[ending])
    raise UnknownNameError(
        f"Unknown system {name!r}; known: {', '.join(TEXT_SYSTEMS)}, each also with {_FACET}, and "
        f"ENCODER:{{{', '.join(DENSE)}}}."
    )
