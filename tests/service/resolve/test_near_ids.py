"""Tests of ids near an unknown one, for a typing error or another prefix."""

import pyarrow as pa
import pytest

from service.resolve.near_ids import near_ids

IDS = ["demo:p03-m07", "demo:p03-m08", "demo:p13-m07", "doi:10.1000/Abc", "1706.03762", "ab1", "ünïcode:1"]


def found(wanted: str, *, limit: int = 9) -> list[str]:
    """Return the near ids in a column of two chunks, one of them a slice."""
    column = pa.chunked_array([pa.array(IDS[:2]), pa.array(["x", *IDS[2:]]).slice(1)])
    return [IDS[i] for i in near_ids(column, wanted, limit=limit)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("demo:p03-m7", ["demo:p03-m07", "demo:p03-m08", "demo:p13-m07"]),
        ("DEMO:P03-M07", ["demo:p03-m07", "demo:p03-m08", "demo:p13-m07"]),
        ("dmeo:p03-m08", ["demo:p03-m08"]),
        ("p13-m07", ["demo:p13-m07"]),
        ("10.1000/abc", ["doi:10.1000/Abc"]),
        ("https://arxiv.org/abs/1706.03762", ["1706.03762"]),
        ("https://doi.org/doi:10.1000/abc", ["doi:10.1000/Abc"]),
        ("ab2", ["ab1"]),
        ("xy1", []),
        ("m07", []),
        ("3-m07", []),
        ("unicode:1", []),
        ("unïcode:1", ["ünïcode:1"]),
        ("\ud800", []),
        ("", []),
        ("z" * 200, []),
    ],
)
def test_what_is_near(wanted: str, expected: list[str]) -> None:
    """Near ids are at most two edits away (one if short) without regard to case, or have another prefix."""
    assert expected == found(wanted)


def test_the_nearest_come_first_and_not_too_many() -> None:
    """Fewer edits come first, then the order of the collection, up to the limit."""
    assert ["demo:p13-m07", "demo:p03-m07"] == found("demo:p13-m07", limit=2)
    assert ["demo:p03-m07"] == found("demo:p03-m07", limit=1)


def test_edits_are_levenshteins() -> None:
    """Two short words are near exactly if their Levenshtein distance is at most 1."""
    words = [a + b + c + d for a in ("", "a", "b") for b in "ab" for c in ("", "b") for d in ("", "aa", "ba")]
    for word in words:
        near = {i for i, other in enumerate(words) if 1 >= levenshtein(word, other)}
        assert near == set(near_ids(pa.chunked_array([words]), word, limit=len(words)))


def levenshtein(a: str, b: str) -> int:
    """Return the Levenshtein distance by its definition."""
    if not a or not b:
        return len(a) + len(b)
    return min(
        levenshtein(a[1:], b) + 1, levenshtein(a, b[1:]) + 1, levenshtein(a[1:], b[1:]) + (a[0] != b[0])
    )
