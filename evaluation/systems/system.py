"""A system as a value: which query sentences it uses and how it scores; its name encodes both.

    bm25, tfidf, word2vec, word2vec-tfidf      title and abstract as the query
    bm25-facet, tfidf-facet, ...               only the selected sentences as the query
    ENCODER:alone:SCORER                       the selected sentences, each encoded by itself
    ENCODER:SCORER                             the selected sentences, read in context (semantics 3.5)
    ENCODER:SCORER:whole                       all sentences of the query
    ENCODER:SCORER:focus                       the selected sentences, turned away from the rest
    ENCODER:SCORER:tagged, ...:focus:tagged    sentences selected by facets of the encoder's tagger
    ENCODER:SCORER:same-facet, ...             against candidate sentences of the query's facet only
    ...:words                                  systems in context, as in the service: shared words count
                                               too, and specific sentences count more than others
    ENCODER:document                           L2 distance of the document vectors

Candidates are compared with title and whole abstract, except with ``same-facet``.
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

    SELECTED = "selected"  # those that the query selects (ASPIRE's aspect query, semantics 3.5)
    WHOLE = "whole"  # all (ASPIRE's whole-abstract query, semantics 2)
    FOCUS = "focus"  # the selected ones, turned away from the rest, as in the service


@dataclass(frozen=True, slots=True)
class TextSystem:
    """One of TEXT_SYSTEMS; ``facet``: only the selected sentences are the query."""

    method: str
    facet: bool = False

    def __str__(self) -> str:
        return self.method + _FACET * self.facet


@dataclass(frozen=True, slots=True)
class DenseSystem:
    """The way to score an encoder's vectors; no ``scorer``: the distance of the two document vectors.

    ``alone``: each sentence was encoded by itself. ``tagged``: a tagger's facets select the query's
    sentences, instead of the collection's facets. ``same_facet``: only the candidate sentences of the query's
    facet are compared, or all if a candidate has none. ``words``: shared words count in addition to the
    vectors, and specific sentences count more than others, as in the service.
    """

    scorer: Scorer | None
    choice: Choice = Choice.SELECTED
    alone: bool = False
    tagged: bool = False
    same_facet: bool = False
    words: bool = False

    def __str__(self) -> str:
        """Return the part of a system's name after the encoder."""
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
        """Whether scores come from a plan between sentences that can be shown.

        False with ``tagged``, as the query is shown with the sentences that the collection chooses, and with
        ``same_facet``, which leaves out some of a candidate's sentences.
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


# Every way to compare an encoder's vectors, by the part of a system's name after the encoder.
DENSE: Mapping[str, DenseSystem] = MappingProxyType({str(system): system for system in _dense_systems()})


def parse(name: str) -> System:
    """Parse the name of a system; its encoder is not looked up. Raises UnknownNameError."""
    method = name.removesuffix(_FACET)
    if method in TEXT_SYSTEMS:
        return TextSystem(method, facet=name != method)
    # Encoders may be folders with any name; if two endings fit, the longer one is meant.
    for ending in sorted(DENSE, key=len, reverse=True):
        if name.endswith(f":{ending}") and len(name) > len(ending) + 1:
            return VectorSystem(name.removesuffix(f":{ending}"), DENSE[ending])
    raise UnknownNameError(
        f"Unknown system {name!r}; known: {', '.join(TEXT_SYSTEMS)}, each also with {_FACET}, and "
        f"ENCODER:{{{', '.join(DENSE)}}}."
    )
