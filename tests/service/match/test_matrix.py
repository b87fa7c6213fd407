"""The matrix of affinities in its file: rows once, whatever ends the run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from indexer.snapshot.snapshot import Snapshot
from service.match import matrix
from service.match.affinity import Affinities
from service.match.matrix import affinity_matrix
from service.match.nearness import Nearness
from tests.support.builds import quiet

PROFILES = {"a": ["demo:p03-m01", "demo:p03-m02"], "b": ["demo:p01-m02"]}
SUBMISSIONS = np.arange(4)


def _profiles(nearness: Nearness, profiles: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
    return {name: nearness.snapshot.find_all(ids) for name, ids in profiles.items()}


class _Watched(Affinities):
    """Counts the submissions it was asked for, and fails after so many."""

    asked: int = 0
    most: int = 10_000

    def of(self, submissions, among=None):  # type: ignore[no-untyped-def]  # as the method it watches
        if self.asked + len(submissions) > self.most:
            raise KeyboardInterrupt
        self.asked += len(submissions)
        return super().of(submissions, among)


def _matrix(nearness: Nearness, affinities: Affinities, data: Path) -> np.ndarray:
    return affinity_matrix(nearness, affinities, SUBMISSIONS, data=data, on_progress=quiet)


@pytest.fixture
def nearness(hashed_snapshot: Snapshot) -> Nearness:
    """The demo corpus, two rows at a time."""
    return Nearness(hashed_snapshot)


@pytest.fixture(autouse=True)
def _two_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "_N_ROWS", 2)


def test_an_interrupted_run_goes_on(nearness: Nearness, tmp_path: Path) -> None:
    """No row is computed twice, and the same matrix comes out."""
    expected = Affinities(nearness, _profiles(nearness, PROFILES)).of(
        [nearness.indexed(each) for each in range(4)]
    )
    stopped, going_on = (
        _Watched(nearness, _profiles(nearness, PROFILES)),
        _Watched(nearness, _profiles(nearness, PROFILES)),
    )
    stopped.most = 3
    with pytest.raises(KeyboardInterrupt):
        _matrix(nearness, stopped, tmp_path)
    assert 2 == stopped.asked
    assert (expected == _matrix(nearness, going_on, tmp_path)).all()
    assert 2 == going_on.asked
    again = _Watched(nearness, _profiles(nearness, PROFILES))
    assert (expected == _matrix(nearness, again, tmp_path)).all()
    assert 0 == again.asked


def test_a_row_that_was_cut_short_and_a_damaged_file_are_computed_anew(
    nearness: Nearness, tmp_path: Path
) -> None:
    """What is not whole counts for nothing."""
    expected = _matrix(nearness, Affinities(nearness, _profiles(nearness, PROFILES)), tmp_path)
    (path,) = (tmp_path / "match").glob("*.npy")
    rows = np.lib.format.open_memmap(path, mode="r+")
    rows[1, 1] = np.nan
    rows.flush()
    watched = _Watched(nearness, _profiles(nearness, PROFILES))
    assert (expected == _matrix(nearness, watched, tmp_path)).all()
    assert 1 == watched.asked
    path.write_bytes(path.read_bytes()[:50])
    assert (expected == _matrix(nearness, watched, tmp_path)).all()
    assert 5 == watched.asked


def test_other_profiles_are_another_matrix(nearness: Nearness, tmp_path: Path) -> None:
    """Names, papers and how many count tell them apart."""
    first = _matrix(nearness, Affinities(nearness, _profiles(nearness, PROFILES)), tmp_path)
    fewer = _matrix(nearness, Affinities(nearness, _profiles(nearness, PROFILES), n_nearest=1), tmp_path)
    assert (first[:, 0] != fewer[:, 0]).all()
    other = _matrix(
        nearness,
        Affinities(nearness, _profiles(nearness, {"a": ["demo:p05-m01"], "b": PROFILES["b"]})),
        tmp_path,
    )
    assert (first[:, 0] != other[:, 0]).any()
    assert (first[:, 1] == other[:, 1]).all()
