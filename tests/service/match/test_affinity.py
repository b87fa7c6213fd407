"""Tests of affinities: means over the nearest papers of a profile, their unit, and their reasons."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from indexer.snapshot.snapshot import Snapshot
from models.errors import DeadlineError, InputError
from service.context import with_deadline
from service.match.affinity import N_NEAREST, Affinities, Reasons
from service.match.paper_distances import PaperDistances
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from tests.support.annotators import hashing_annotator

PROFILES: Mapping[str, Sequence[str]] = {
    "seven": [f"demo:p03-m0{number}" for number in range(1, 8)],
    "two": ["demo:p01-m02", "demo:p05-m04"],
    "alone": ["demo:p02-m02"],
}
SUBMISSION = "demo:p02-m02"


def _profiles(nearness: PaperDistances, profiles: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
    return {name: nearness.snapshot.find_all(ids) for name, ids in profiles.items()}


@pytest.fixture
def distances(hashed_snapshot: Snapshot) -> dict[str, float]:
    """Return the distance of every other paper from the submission, by a plain search."""
    engine = SearchEngine(hashed_snapshot, hashing_annotator, n_candidates=500)
    query = SearchQuery((Seed(SUBMISSION),), specificity=0.0, limit=len(hashed_snapshot))
    return {result.paper.id: -result.score for result in engine.search(query).results}


def test_affinities_are_those_computed_by_hand(
    hashed_snapshot: Snapshot, distances: dict[str, float]
) -> None:
    """The affinity is 1 minus the mean distance of the five nearest (or all) over that of all papers."""
    nearness = PaperDistances(hashed_snapshot)
    submission = nearness.indexed(hashed_snapshot.position(SUBMISSION))
    found = dict(
        zip(
            PROFILES,
            Affinities(nearness, _profiles(nearness, PROFILES)).of([submission])[0].tolist(),
            strict=True,
        )
    )
    usual = np.mean(list(distances.values()))
    for name in ("seven", "two"):
        nearest = sorted(distances[each] for each in PROFILES[name])[:N_NEAREST]
        assert pytest.approx(1 - np.mean(nearest) / usual) == found[name]
    assert -np.inf == found["alone"]


def test_reasons_sum_to_the_affinity(hashed_snapshot: Snapshot) -> None:
    """Reasons come nearest first, and with their alignments and words they sum to the affinity."""
    nearness = PaperDistances(hashed_snapshot)
    affinities = Affinities(nearness, _profiles(nearness, PROFILES))
    submission = nearness.indexed(hashed_snapshot.position(SUBMISSION))
    all_of_them, none = affinities.reasons(submission, [0, 2])
    reasons = all_of_them.returned
    assert N_NEAREST == len(reasons)
    assert 0 == all_of_them.rest
    assert {each.ranked.paper.id for each in reasons} < set(PROFILES["seven"])
    scores = [each.ranked.score for each in reasons]
    assert sorted(scores, reverse=True) == scores
    total = 1.0
    for each in reasons:
        cells = sum(cell.weight * cell.distance for cell in each.ranked.alignments)
        words = each.ranked.words
        assert words.weight > 0
        assert pytest.approx(-each.ranked.score) == cells + words.weight * words.distance
        total -= each.share * (cells + words.weight * words.distance)
    assert pytest.approx(total) == affinities.of([submission])[0, 0]
    assert Reasons((), 0) == none
    (first,) = affinities.reasons(submission, [0], n_reasons=1)
    assert reasons[:1] == first.returned
    assert pytest.approx(sum(each.share * each.ranked.score for each in reasons[1:])) == first.rest


def test_many_at_once_are_each_alone(hashed_snapshot: Snapshot) -> None:
    """Several submissions and a subset of profiles in threads give bit for bit the single affinities."""
    alone = Affinities(PaperDistances(hashed_snapshot), _profiles(PaperDistances(hashed_snapshot), PROFILES))
    nearness = PaperDistances(hashed_snapshot, n_threads=3)
    submissions = [nearness.indexed(number) for number in range(5)]
    together = Affinities(nearness, _profiles(nearness, PROFILES)).of(submissions, np.array([1, 0]))
    expected = np.vstack([alone.of([each]) for each in submissions])[:, [1, 0]]
    assert (expected == together).all()


def test_a_pasted_paper_is_compared_as_the_indexed_one(hashed_snapshot: Snapshot) -> None:
    """A pasted paper compares to an indexed one as its indexed copy does, words included."""
    nearness = PaperDistances(hashed_snapshot)
    first, second = nearness.indexed(3), nearness.indexed(8)
    expected = nearness.compared(first, second)
    (annotated,) = hashing_annotator().annotate([second.paper])
    pasted = type(second)(second.paper, annotated.encoded.sentences)
    found = nearness.compared(first, pasted)
    assert pytest.approx(expected.score, abs=1e-4) == found.score
    assert expected.words.terms
    assert [each.term for each in expected.words.terms] == [each.term for each in found.words.terms]
    assert pytest.approx(expected.words.distance) == found.words.distance


@pytest.mark.parametrize(
    ("profiles", "message"),
    [({}, "There is no profile"), ({"a": ["no such"]}, "1 of 1 profiles have no paper")],
)
def test_profiles_without_papers(
    hashed_snapshot: Snapshot, profiles: Mapping[str, Sequence[str]], message: str
) -> None:
    """An error names the missing profiles or papers."""
    nearness = PaperDistances(hashed_snapshot)
    with pytest.raises(InputError, match=message):
        Affinities(nearness, _profiles(nearness, profiles))


def test_a_deadline_is_kept_in_threads(hashed_snapshot: Snapshot) -> None:
    """The threads that compare keep the deadline; without words, only they can notice it."""
    nearness = PaperDistances(hashed_snapshot, n_threads=2, words=0.0)
    submission = nearness.indexed(0)
    with pytest.raises(DeadlineError):
        with_deadline(0, lambda: nearness.distances([submission], np.arange(9)))
