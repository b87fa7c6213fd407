"""Answers of comparisons and matches, and profiles."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from akin.client.responses.lists import Described, Faceted, Listed, in_lines, named, notes_of, titled
from akin.client.responses.papers import AnswerWarning, PaperSummary
from akin.client.responses.ranked import Alignment, Omitted, Words
from models.counts import counted

_PROFILES = 3  # of a submission, in an interpreter


@dataclass(frozen=True, slots=True, repr=False)
class ComparedSentence(Faceted):
    """A sentence, and the number of the other paper's ``nearest`` sentence, at ``distance``.

    ``usual`` is the mean distance to the nearest sentence of other papers, and ``alone`` whether the other
    paper is no nearer than that; all are ``None`` for sentences past the encoder's limit.
    """

    start: int
    end: int
    facet: str | None
    text: str
    nearest: int | None
    distance: float | None
    usual: float | None
    alone: bool | None

    def row(self) -> dict[str, Any]:
        """Return the cells of the sentence in a table."""
        return {
            name: getattr(self, name) for name in ("facet", "text", "nearest", "distance", "usual", "alone")
        }


@dataclass(frozen=True, slots=True, repr=False)
class Side(Described):
    """One of two papers, compared with the other; the score is minus the sum of all weight x distance.

    ``affinity`` is 1 for the same text and about 0 for papers that have as much in common as usual.
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

    def line(self) -> str:
        """Return the affinity, and the id and title of the paper, on one line."""
        return f"{self.affinity:.3f}  {named(self.id, self.title)}"

    def row(self) -> dict[str, Any]:
        """Return the cells of the paper in a table."""
        return {"id": self.id, "title": self.title}


@dataclass(frozen=True, slots=True)
class FacetShare:
    """The share of the match from ``a`` to ``b`` between sentences of two facets."""

    a: str | None
    b: str | None
    weight: float
    distance: float


@dataclass(frozen=True, slots=True, repr=False)
class ComparedPapers(Listed[Side]):
    """Two papers compared in both directions; a table has a row for each sentence of A, then of B."""

    COLUMNS: ClassVar[tuple[str, ...]] = (
        *("side", "id", "title", "sentence"),
        *("facet", "text", "nearest", "distance", "usual", "alone"),
    )
    a: Side
    b: Side
    facets: tuple[FacetShare, ...]
    generation: str
    warnings: tuple[AnswerWarning, ...]
    took_ms: float

    @property
    def _items(self) -> tuple[Side, Side]:
        return self.a, self.b

    def _rows(self) -> Iterator[dict[str, Any]]:
        for name, side in zip("ab", self, strict=True):
            for number, each in enumerate(side.sentences):
                yield {"side": name, **side.row(), "sentence": number, **each.row()}

    def __repr__(self) -> str:
        sides = ((self.a, self.b), (self.b, self.a))
        names = [titled(side.title or side.id or "a text", None) for side, _ in sides]
        alone = [sum(bool(each.alone) for each in side.sentences) for side, _ in sides]
        affinities = f"{self.a.affinity:.3f} from A to B, {self.b.affinity:.3f} from B to A"
        return (
            f"<ComparedPapers: affinity {affinities}>\n"
            f" A. {names[0]} ({alone[0]} of {len(self.a.sentences)} sentences only here)\n"
            f" B. {names[1]} ({alone[1]} of {len(self.b.sentences)} sentences only here)"
        )


@dataclass(frozen=True, slots=True)
class Profile:
    """A saved set of papers; ``unresolved`` are names that no paper of the collection has."""

    name: str
    papers: tuple[str, ...] = field(repr=False)
    conflicts: tuple[str, ...] = field(repr=False)
    quota: int | None
    unresolved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileSummary:
    """A profile without its papers."""

    name: str
    quota: int | None


@dataclass(frozen=True, slots=True)
class ProfileList:
    """A page of profiles, ordered by name; ``next_after`` leads to the next page, ``None`` at the end."""

    profiles: tuple[ProfileSummary, ...]
    next_after: str | None

    def __len__(self) -> int:
        """Return the number of profiles on this page."""
        return len(self.profiles)


@dataclass(frozen=True, slots=True)
class MatchReason:
    """A paper of a profile; its distance from the submission is minus its ``score``."""

    paper: PaperSummary
    share: float
    score: float
    alignments: tuple[Alignment, ...] = field(repr=False)
    omitted: tuple[Omitted, ...] = field(repr=False)
    words: Words = field(repr=False)


@dataclass(frozen=True, slots=True, repr=False)
class MatchedProfile(Described):
    """A profile compared with a submission: affinity 1 is the same text, about 0 is usual.

    The affinity is 1 plus the sum of ``share`` x ``score`` over ``reasons``, plus ``rest``. ``papers`` is
    the number of the profile's papers in the collection.
    """

    profile: str
    affinity: float
    papers: int
    assigned: bool
    reasons: tuple[MatchReason, ...]
    rest: float

    def line(self) -> str:
        """Return the name and the affinity on one line."""
        return f"{self.profile} {self.affinity:.3f}"

    def row(self) -> dict[str, Any]:
        """Return the cells of the profile in a table."""
        return {name: getattr(self, name) for name in ("profile", "affinity", "papers", "assigned")}


@dataclass(frozen=True, slots=True, repr=False)
class MatchedSubmission(Described):
    """Submission number ``submission`` and its profiles: those assigned, then the nearest others."""

    submission: int
    id: str | None
    title: str
    profiles: tuple[MatchedProfile, ...]

    def line(self) -> str:
        """Return the title, and the nearest profiles with their affinities, on one line."""
        nearest = [each.line() for each in self.profiles[:_PROFILES]]
        return f"{titled(self.title or self.id or 'a text', None)}: {', '.join(nearest)}"

    def row(self) -> dict[str, Any]:
        """Return the cells of the submission in a table."""
        return {"submission": self.submission, "id": self.id, "title": self.title}


@dataclass(frozen=True, slots=True, repr=False)
class LostPapers(Described):
    """Papers and conflicts of a profile that are not in the collection."""

    profile: str
    papers: tuple[str, ...]

    def line(self) -> str:
        """Return the profile and the number of papers on one line."""
        return f"Left out: {counted(len(self.papers), 'paper')} of {self.profile}, not in the collection"


@dataclass(frozen=True, slots=True, repr=False)
class MatchAnswer(Listed[MatchedSubmission]):
    """Submissions in the given order, with the nearest profiles of each.

    A table has a row for each submission and profile.
    """

    LIST: ClassVar[str] = "submissions"
    COLUMNS: ClassVar[tuple[str, ...]] = (
        *("submission", "id", "title"),
        *("profile", "affinity", "papers", "assigned"),
    )
    submissions: tuple[MatchedSubmission, ...]
    unresolved: tuple[LostPapers, ...]
    generation: str
    warnings: tuple[AnswerWarning, ...]
    took_ms: float

    def _rows(self) -> Iterator[dict[str, Any]]:
        return ({**each.row(), **profile.row()} for each in self for profile in each.profiles)

    def __repr__(self) -> str:
        head = f"<{type(self).__name__}: {counted(len(self.submissions), 'submission')}>"
        return in_lines(head, [each.line for each in self], notes_of(self))
