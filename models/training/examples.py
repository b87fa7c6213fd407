"""Training examples: texts, and the pairs of texts that belong together."""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from models.errors import InputError
from models.types import Paper

# The ids of texts that the recipes make of a paper (pairs/cropping.py), with the id of the paper.
_MADE = re.compile(r"crop:(.+):[ab]|(?:cloze|rest):(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    """``query`` and ``positive`` belong together, ``negatives`` do not belong to the query; all are text ids.

    ``contexts`` are sentences that cite both texts (co-citations). ``aligned`` holds the number of the
    query's and of the positive's sentence that the contexts are about, ``None`` if no recipe found them
    (semantics 3.11). ``belong`` holds more texts that belong to the query; they count neither as negatives
    nor as positives of the query.
    """

    query: str
    positive: str
    negatives: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()
    aligned: tuple[int, int] | None = None
    belong: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[str, ...]:
        """The ids of its texts: the query, the positive and the negatives, in this order."""
        return (self.query, self.positive, *self.negatives)


@dataclass(frozen=True)
class TrainingSet:
    """Examples and the texts they name: papers, or short texts as papers without a title.

    The ids ``crop:ID:a``, ``crop:ID:b``, ``cloze:ID`` and ``rest:ID`` are of texts made of the paper ``ID``.

    Raises InputError for a set without examples, for an example that names a text not in ``texts``, and for
    one with the same text as query, positive or negative.
    """

    name: str
    texts: Mapping[str, Paper]
    examples: Sequence[Example]

    def __post_init__(self) -> None:
        if not self.examples:
            raise InputError(f"The training set {self.name} holds no example; give it at least one.")
        for number, example in enumerate(self.examples, start=1):
            if wrong := wrong_in(example, self.texts):
                raise InputError(f"Example {number} of {self.name} {wrong}.")

    @cached_property
    def akin(self) -> Mapping[str, frozenset[str]]:
        """For each paper, those that belong to it in some example; their texts are never its negatives."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for example in self.examples:
            query = paper_of(example.query)
            for other in map(paper_of, (example.positive, *example.belong)):
                found[query].add(other)
                found[other].add(query)
        return {paper: frozenset(others) for paper, others in found.items()}


def wrong_in(example: Example, texts: Container[str]) -> str:
    """Return what is wrong with the ids of an example; empty if nothing is."""
    if absent := [text for text in example.named if text not in texts]:
        return f"names {absent[0]!r}, which is not one of its texts"
    if example.query == example.positive or {example.query, example.positive} & {*example.negatives}:
        return (
            f"contains a text twice: query {example.query!r}, positive {example.positive!r} and negatives "
            "must differ"
        )
    return ""


def belong(text: str, other: str, sets: Iterable[TrainingSet]) -> bool:
    """Return whether two texts are of one paper, or of two in an example of any of ``sets``."""
    paper, of_other = paper_of(text), paper_of(other)
    return paper == of_other or any(of_other in of.akin.get(paper, ()) for of in sets)


def related(text: str, sets: Iterable[TrainingSet]) -> set[str]:
    """Return the paper of a text, and the papers that belong to it in an example of any of ``sets``."""
    paper = paper_of(text)
    return {paper}.union(*(of.akin.get(paper, ()) for of in sets))


def paper_of(text: str) -> str:
    """Return the id of the paper that a crop, a cloze query or its rest was made of; else the id given."""
    while made := _MADE.fullmatch(text):  # a crop may be made of a rest
        text = made[1] or made[2]
    return text
