"""Tests of the sentences of a result that are marked as the match."""

import numpy as np
import pytest

from models.transport import Plan
from models.types import Paper, Sentence, Unit
from service.search.aspect import Part
from service.search.explain import MAX_OMITTED_SEEDS, explain


def test_omitted_cells_of_contrasts_and_of_negatives_are_summed_apart() -> None:
    """However many seeds are omitted, sums of what a negative took off hold nothing of a contrast."""
    n = MAX_OMITTED_SEEDS
    parts = [
        Part(np.ones((1, 2), np.float32), (0,), away=True, seed=number // 2, negative=number % 2 == 1)
        for number in range(2 * n)
    ]
    plan = Plan(np.ones((1, 1)), np.ones((1, 1)), -1.0, 0.0, 0.0, True, 1)
    ranked = explain(
        Paper("p", "T", "x.", (Sentence("x.", 0, 2),)),
        parts,
        [(number, plan) for number in range(2 * n)],
        -np.arange(1.0, 2 * n + 1),
        unit=Unit.SENTENCE,
        max_alignments=0,
    )
    sums = {
        kind: sum(each.weight for each in ranked.omitted if each.negative is kind) for kind in (False, True)
    }
    assert {False: -float(n * n), True: -float(n * (n + 1))} == sums
    assert [None, None] == [each.seed for each in ranked.omitted[n:]]


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((0.3, 0.2, 0.02, 0.46, 0.02, 0.0), [3, 0, 1]),  # 76 % are not enough
        ((0.34, 0.18, 0.02, 0.46, 0.0, 0.0), [3, 0]),
        ((0.25, 0.25, 0.25, 0.25), [0, 1, 2, 3]),
        ((0.3, 0.24, 0.23, 0.23), [0]),  # the others have less than an even share
        ((0.4, 0.25, 0.35, 0.0), [0, 2, 1]),
        ((1.0,), [0]),
    ],
)
def test_the_fewest_sentences_with_most_of_a_match_are_marked(
    shares: tuple[float, ...], expected: list[int]
) -> None:
    """The heaviest sentences are marked until they have 80 % of the match, except light ones."""
    sentences = tuple(Sentence("x.", 3 * i, 3 * i + 2) for i in range(len(shares)))
    mass = np.array([shares])
    plan = Plan(mass, np.ones_like(mass), -1.0, 0.0, 0.0, True, 1)
    ranked = explain(
        Paper("p", "T", "x. " * len(shares), sentences),
        [Part(np.ones((1, 2), np.float32), (0,))],
        [(0, plan)],
        np.ones(1),
        unit=Unit.SENTENCE,
    )
    assert expected == [each.sentence for each in ranked.highlights if each.marked]
