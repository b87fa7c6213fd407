"""Rows and papers by facets: equal to checking every row, and cached."""

from itertools import combinations

import numpy as np
import pytest

from indexer.snapshot.facet_rows import FacetRows, FilteredRows
from indexer.snapshot.snapshot import Snapshot
from models.facets import FACETS, NO_FACET, matching_facets
from models.types import Facet

SOME = [*combinations(Facet, 1), *combinations(Facet, 2), ()]


@pytest.fixture(scope="module")
def made_up() -> tuple[FacetRows, np.ndarray, np.ndarray]:
    """Return the rows of 50 papers, with their facets and papers; two papers have no row."""
    rng = np.random.default_rng(0)
    facets = rng.integers(NO_FACET, len(FACETS), 200).astype(np.int8)
    papers = np.sort(rng.choice(np.delete(np.arange(50), [7, 49]), 200))
    return FacetRows(facets, papers, 50), facets, papers


@pytest.mark.parametrize("facets", SOME)
def test_rows_and_papers_have_one_of_the_facets(
    made_up: tuple[FacetRows, np.ndarray, np.ndarray], facets: tuple[Facet, ...]
) -> None:
    """Aims count as background, and a sentence without a facet has none."""
    found, row_facets, paper_of_row = made_up
    names = {match for facet in facets for match in matching_facets(facet)}
    expected = np.array([code != NO_FACET and FACETS[code] in names for code in row_facets.tolist()])
    assert expected.tolist() == found.rows(facets).tolist()
    having = set(paper_of_row[expected].tolist())
    assert [number in having for number in range(50)] == found.papers(facets).tolist()


def test_rows_of_facets_are_kept_for_all(made_up: tuple[FacetRows, np.ndarray, np.ndarray]) -> None:
    """The same facets in any order return one shared, read-only array."""
    found, *_ = made_up
    for of in (found.rows, found.papers):
        first = of([Facet.METHOD, Facet.RESULT])
        assert first is of((Facet.RESULT, Facet.METHOD))
        with pytest.raises(ValueError, match="read-only"):
            first[0] = True


def test_rows_of_papers_are_those_that_they_own(hashed_snapshot: Snapshot) -> None:
    """A filter of papers becomes a filter of their rows."""
    papers = np.random.default_rng(1).random(len(hashed_snapshot.live)) < 0.5
    expected = papers[hashed_snapshot.paper_of_row]
    assert expected.tolist() == hashed_snapshot.rows_of_papers(papers).tolist()


def test_rows_of_a_filter_are_made_from_those_kept() -> None:
    """Masks near a kept one, far from all of them, and after more filters than are kept have their rows."""
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 9, 500))])
    found, paper_of_row = FilteredRows(offsets), np.repeat(np.arange(500), np.diff(offsets))
    filters = [rng.random(500) < share for share in rng.random(20)]
    for papers in (*filters, *filters):
        for n_others in (0, 3, 64, 65, 500):
            own = papers.copy()
            own[rng.choice(500, n_others, replace=False)] ^= True
            kept = own.copy()
            rows = found.rows(own)
            assert (own[paper_of_row] == rows).all()
            rows[:] = False  # the caller's own
            own[:] = False
            assert (kept[paper_of_row] == found.rows(kept)).all()


def test_rows_of_a_filter_are_kept_once() -> None:
    """A query that leaves out papers of its own shares what is kept of its filter."""
    found, papers = FilteredRows(np.arange(0, 303, 3)), np.arange(101)[:100] % 2 == 0
    for left_out in range(0, 20, 2):
        own = papers.copy()
        own[left_out] = False
        found.rows(own)
    assert 1 == len(found._kept)


def test_a_sample_may_need_several_facets(hashed_snapshot: Snapshot) -> None:
    """A sample by several facets holds the papers with all of them, in the order of the whole sample."""
    groups = [[Facet.METHOD], [Facet.OBJECTIVE]]
    having = [
        place
        for place in hashed_snapshot.sample(len(hashed_snapshot)).tolist()
        if all(
            {match for facet in group for match in matching_facets(facet)}
            & {each.facet for each in hashed_snapshot.paper(place).sentences}
            for group in groups
        )
    ]
    for wanted in (groups, groups[::-1]):
        assert having[:5] == hashed_snapshot.sample(5, *wanted).tolist()
    assert hashed_snapshot.sample(5, [Facet.METHOD]).tolist() != hashed_snapshot.sample(5, *groups).tolist()
