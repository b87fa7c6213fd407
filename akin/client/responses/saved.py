"""Saved queries and their new papers."""

from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from akin.client.responses.lists import Described, Results
from akin.client.responses.papers import AnswerWarning
from akin.client.responses.ranked import Recommendation, Unresolved


@dataclass(frozen=True, slots=True, repr=False)
class SavedQuerySummary(Described):
    """A saved query; ``kind`` is search or recommendations, times are in UTC.

    Papers added after the change ``seen_up_to`` of the collection are new. ``feed`` is the path of its feed,
    ``None`` if it has none. ``owner`` is the id of the key that saved it, empty if it was saved without one.
    """

    id: str
    name: str
    kind: str
    created_at: datetime
    seen_at: datetime | None
    seen_up_to: int
    feed: str | None
    _: KW_ONLY
    owner: str = ""

    def line(self) -> str:
        """Return the id, name and kind on one line."""
        return f"{self.id}: {self.name} ({self.kind})"


@dataclass(frozen=True, slots=True, repr=False)
class SavedQuery(SavedQuerySummary):
    """A saved query with its body: that of a search or of recommendations.

    When it is saved, ``unresolved`` are the seeds that cannot be used now, such as papers not added yet.
    """

    search: dict[str, Any] | None
    recommendations: dict[str, Any] | None
    unresolved: tuple[Unresolved, ...] = ()


@dataclass(frozen=True, slots=True)
class SavedQueryList:
    """The saved queries of one key."""

    queries: tuple[SavedQuerySummary, ...]


@dataclass(frozen=True, slots=True, repr=False)
class NewPaper(Recommendation):
    """A paper that was added to the collection at ``added_at``, as a recommendation."""

    added_at: datetime = field(kw_only=True)

    def row(self) -> dict[str, Any]:
        """Return the cells of a result in a table, with ``added_at``."""
        return {**Recommendation.row(self), "added_at": self.added_at}


@dataclass(frozen=True, slots=True, repr=False)
class News(Results[NewPaper]):
    """The new papers of a saved query, best first; ``reason`` and ``detail`` say why there are none.

    ``added`` papers were added since, and ``matching`` of them match, whatever the limit; ``mark_seen`` up
    to ``seen_up_to`` marks them as read. With a ``coverage`` below 1, or if no seed can be used, it marks
    none.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = (*Results.COLUMNS, "added_at")
    id: str
    name: str
    results: tuple[NewPaper, ...]
    added: int
    seen_up_to: int
    unresolved: tuple[Unresolved, ...]
    generation: str
    reason: str | None
    detail: str | None
    warnings: tuple[AnswerWarning, ...]
    took_ms: float
    matching: int = 0
    coverage: float = 1.0  # the share of the collection's papers that could be found
