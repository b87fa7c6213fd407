"""Papers compared in blocks: the same result as at once, and a deadline ends it between blocks."""

from dataclasses import fields

import anyio
import numpy as np
import pytest

from models.errors import DeadlineError
from models.transport import Plans, Scorer, best, score_in_blocks, score_papers
from service.context import Deadline, set_deadline
from tests.support.examples.models.vectors import clustered_vectors


@pytest.mark.parametrize("cells", [1, 100, 1_000, 10**9])
@pytest.mark.parametrize("scorer", Scorer)
def test_blocks_change_no_bit(scorer: Scorer, cells: int) -> None:
    """Whatever the block size, plans and scores are those of one call, bit for bit."""
    papers = clustered_vectors(5, n_papers=40)
    expected = score_papers(*papers, scorer=scorer)
    actual = score_in_blocks(*papers, scorer=scorer, block_cells=cells)
    for field in fields(Plans):
        np.testing.assert_array_equal(getattr(expected, field.name), getattr(actual, field.name), strict=True)


def test_no_paper_makes_no_plan() -> None:
    """Without papers to compare there are no plans."""
    query, rows, _ = clustered_vectors(5, n_papers=1)
    assert 0 == len(score_in_blocks(query, rows[:0], np.zeros(1, dtype=np.int64)))


def test_a_deadline_ends_a_comparison_between_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the deadline, no further block is compared."""
    papers = clustered_vectors(5, n_papers=40)
    n_compared = 0

    async def given_up_at_the_third() -> None:
        deadline = Deadline(60.0)
        set_deadline(deadline)

        def counted(*args: object, **kwargs: object) -> Plans:
            nonlocal n_compared
            n_compared += 1
            if n_compared == 3:
                deadline.abandon()
            return score_papers(*args, **kwargs)  # type: ignore[arg-type]  # passed on

        monkeypatch.setattr(best, "score_papers", counted)
        score_in_blocks(*papers, block_cells=1)

    with pytest.raises(DeadlineError):
        anyio.run(given_up_at_the_third)
    assert 3 == n_compared
