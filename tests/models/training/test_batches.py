"""The examples of each training step: every example in turn, sets by weight, reproducible by step."""

from collections import Counter

import numpy as np
import pytest

from models.errors import InputError
from models.training.batches import Mixing, Schedule

SIZES, WEIGHTS = (7, 20, 5), (1.0, 2.0, 1.0)


def schedule(mixing: Mixing, *, n_steps: int = 40, seed: int = 3) -> Schedule:
    """Return batches of four from three sets."""
    return Schedule(SIZES, WEIGHTS, mixing=mixing, batch=4, n_steps=n_steps, seed=seed)


@pytest.mark.parametrize("mixing", Mixing)
def test_sets_take_part_by_their_weights_and_examples_in_turn(mixing: Mixing) -> None:
    """Each set gives its share, and no example comes again before all of its set."""
    drawn = [one for step in range(40) for one in schedule(mixing)[step].chosen]
    assert len(drawn) == 160
    assert Counter(number for number, _ in drawn) == {0: 40, 1: 80, 2: 40}
    for number, size in enumerate(SIZES):
        own = [example for of, example in drawn if of == number]
        for start in range(0, len(own) - size, size):
            assert sorted(own[start : start + size]) == list(range(size))


@pytest.mark.parametrize("mixing", Mixing)
def test_what_was_drawn_so_far_is_counted(mixing: Mixing) -> None:
    """The examples drawn from each set are counted after any number of batches."""
    batches = schedule(mixing)
    for n_batches in (0, 13, 40):
        chosen = Counter(of for step in range(n_batches) for of, _ in batches[step].chosen)
        assert batches.drawn(n_batches) == tuple(chosen[number] for number in range(3))


def test_each_way_of_mixing_makes_its_batches() -> None:
    """In-batch mixes sets in a batch, alternating takes turns, sequential takes one set after another."""
    leaders = {
        mixing: [{number for number, _ in schedule(mixing)[step].chosen} for step in range(40)]
        for mixing in Mixing
    }
    assert all(sets == {0, 1, 2} for sets in leaders[Mixing.IN_BATCH])
    assert all(len(sets) == 1 for sets in leaders[Mixing.ALTERNATING])
    assert all({1} in leaders[Mixing.ALTERNATING][i : i + 3] for i in range(38))
    order = [next(iter(sets)) for sets in leaders[Mixing.SEQUENTIAL]]
    assert order == [0] * 10 + [1] * 20 + [2] * 10
    for step in range(40):
        one = schedule(Mixing.ALTERNATING)[step]
        assert {one.leader} == {number for number, _ in one.chosen}


def test_a_step_is_a_function_of_seed_and_number() -> None:
    """A step depends only on the seed and its number, and each pass over a set has another order."""
    first, second = schedule(Mixing.ALTERNATING), schedule(Mixing.ALTERNATING)
    assert first[17] == second[17]
    assert [first[step] for step in range(40)] != [
        schedule(Mixing.ALTERNATING, seed=4)[step] for step in range(40)
    ]
    own = [example for step in range(40) for number, example in first[step].chosen if number == 0]
    assert own[:7] != own[7:14]


@pytest.mark.parametrize("seed", range(20))
def test_shares_hold_at_every_moment(seed: int) -> None:
    """After any number of steps no set is more than one batch away from its share."""
    weights = np.random.default_rng(seed).uniform(0.1, 3, 4)
    for mixing in (Mixing.IN_BATCH, Mixing.ALTERNATING):
        own = Schedule((50,) * 4, list(weights), mixing=mixing, batch=3, n_steps=60, seed=seed)
        taken = np.zeros(4)
        for step in range(60):
            for number, _ in own[step].chosen:
                taken[number] += 1
            assert np.abs(taken - 3 * (step + 1) * weights / weights.sum()).max() <= 3


@pytest.mark.parametrize(
    ("sizes", "weights", "batch"), [((0, 3), (1, 1), 2), ((3,), (1, 1), 2), ((3,), (0,), 2), ((3,), (1,), 0)]
)
def test_what_cannot_be_drawn_is_refused(
    sizes: tuple[int, ...], weights: tuple[float, ...], batch: int
) -> None:
    """Empty sets, weights of 0 or too many of them, and empty batches are refused."""
    with pytest.raises(InputError, match="expected"):
        Schedule(sizes, weights, mixing=Mixing.IN_BATCH, batch=batch, n_steps=2, seed=0)
