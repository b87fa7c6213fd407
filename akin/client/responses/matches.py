"""Answers of comparisons and matches, and profiles."""

from dataclasses import dataclass

from akin.client.responses.papers import AnswerWarning, PaperHead
from akin.client.responses.ranked import Alignment, Omitted, Words


@dataclass(frozen=True, slots=True)
class ComparedSentence:
    """A sentence, and which of the other paper is ``nearest`` to it, at ``distance``.

    ``usual`` is the mean distance to the nearest sentence of other papers, and ``alone`` whether the other
    paper is no nearer than that; ``None`` for sentences past the encoder's limit.
    """

    start: int
    end: int
    facet: str | None
    text: str
    nearest: int | None
    distance: float | None
    usual: float | None
    alone: bool | None


@dataclass(frozen=True, slots=True)
class Side:
    """One of two papers, and the other seen from it: its score is minus the sum of all weight x distance.

    ``affinity`` is 1 for the same text and about 0 for papers that have no more in common than is usual.
    ``only_words`` are words that the other paper lacks.
    """

    id: str | None
    title: str
    sentences: tuple[ComparedSentence, ...]
    only_words: tuple[str, ...]
    score: float
    affinity: float
    alignments: tuple[Alignment, ...]
    omitted: tuple[Omitted, ...]
    words: Words
    converged: bool
    gap: float = 0.0


@dataclass(frozen=True, slots=True)
class FacetShare:
    """How much of the match from ``a`` to ``b`` lies between sentences of two facets."""

    a: str | None
    b: str | None
    weight: float
    distance: float


@dataclass(frozen=True, slots=True)
class ComparedPapers:
    """Two papers compared both ways."""

    a: Side
    b: Side
    facets: tuple[FacetShare, ...]
    generation: str
    warnings: tuple[AnswerWarning, ...]
    took_ms: float


@dataclass(frozen=True, slots=True)
class Profile:
    """A named set of papers that is kept; ``unresolved`` are names that no paper of the collection has."""

    name: str
    papers: tuple[str, ...]
    conflicts: tuple[str, ...]
    quota: int | None
    unresolved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileHead:
    """A profile but for its papers."""

    name: str
    quota: int | None


@dataclass(frozen=True, slots=True)
class ProfileList:
    """A page of profiles by their names; ``next_after`` leads to the next one."""

    profiles: tuple[ProfileHead, ...]
    next_after: str | None


@dataclass(frozen=True, slots=True)
class MatchReason:
    """A paper of a profile, and what makes its distance from the submission, which is minus its ``score``."""

    paper: PaperHead
    share: float
    score: float
    alignments: tuple[Alignment, ...]
    omitted: tuple[Omitted, ...]
    words: Words


@dataclass(frozen=True, slots=True)
class MatchedProfile:
    """A profile beside a submission: 1 is the same text, about 0 no more in common than is usual.

    The affinity is 1 plus the sum of ``share`` x ``score`` over ``reasons``, plus ``rest``. ``papers`` of the
    profile's papers are in the collection.
    """

    profile: str
    affinity: float
    papers: int
    assigned: bool
    reasons: tuple[MatchReason, ...]
    rest: float


@dataclass(frozen=True, slots=True)
class MatchedSubmission:
    """Submission number ``submission`` and its profiles: those assigned, then the nearest others."""

    submission: int
    id: str | None
    title: str
    profiles: tuple[MatchedProfile, ...]


@dataclass(frozen=True, slots=True)
class LostPapers:
    """Papers and conflicts of a profile that the collection does not hold."""

    profile: str
    papers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MatchAnswer:
    """Submissions in the order given, with the profiles near to each."""

    submissions: tuple[MatchedSubmission, ...]
    unresolved: tuple[LostPapers, ...]
    generation: str
    warnings: tuple[AnswerWarning, ...]
    took_ms: float
