"""Counts in words."""

import pytest

from models.counts import counted


@pytest.mark.parametrize(
    ("n", "plural", "expected"),
    [
        (0, "", "0 papers"),
        (1, "", "1 paper"),
        (2_000, "", "2,000 papers"),
        (1, "papers were", "1 paper"),
        (2, "papers were", "2 papers were"),
    ],
)
def test_one_is_not_several(n: int, plural: str, expected: str) -> None:
    """A count of one has the singular, any other count an s or the given plural."""
    assert expected == counted(n, "paper", plural)
