"""Tests of the file of affinities, which computes each row once, even after an interruption."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from indexer.snapshot.snapshot import Snapshot
from service.match.affinity import Affinities
from service.match.matrix import VERSION, affinity_matrix
from service.match.paper_distances import PaperDistances
from tests.support.builds import quiet

PROFILES = {"a": ["demo:p03-m01", "demo:p03-m02"], "b": ["demo:p01-m02"]}
SUBMISSIONS = np.arange(4)
# Their affinities, by the hashing encoder.
FIGURES = np.array(
    [[-0.010247, -0.016556], [-0.000318, 0.012866], [-0.004495, 0.007752], [-0.008078, -0.018250]]
)


def _profiles(nearness: PaperDistances, profiles: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
    return {name: nearness.snapshot.find_all(ids) for name, ids in profiles.items()}


class _Watched(Affinities):
    """Affinities that count the submissions computed, and are interrupted after ``most``."""

    n_computed: int = 0
    most: int = 10_000

    def of(self, submissions, among=None):  # type: ignore[no-untyped-def]  # as the method it watches
        if self.n_computed + len(submissions) > self.most:
            raise KeyboardInterrupt
        self.n_computed += len(submissions)
        return super().of(submissions, among)


def _matrix(
    nearness: PaperDistances, affinities: Affinities, data: Path, *, version: int = VERSION
) -> np.ndarray:
    """Return the matrix, computed two rows at a time."""
    return affinity_matrix(
        nearness, affinities, SUBMISSIONS, data=data, on_progress=quiet, rows_at_once=2, version=version
    )


@pytest.fixture
def nearness(hashed_snapshot: Snapshot) -> PaperDistances:
    """Return the nearness of papers in the demo corpus."""
    return PaperDistances(hashed_snapshot)


def test_an_interrupted_run_goes_on(nearness: PaperDistances, tmp_path: Path) -> None:
    """A run after an interrupted one computes only the missing rows and gives the same matrix."""
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
    assert 2 == stopped.n_computed
    assert (expected == _matrix(nearness, going_on, tmp_path)).all()
    assert 2 == going_on.n_computed
    again = _Watched(nearness, _profiles(nearness, PROFILES))
    assert (expected == _matrix(nearness, again, tmp_path)).all()
    assert 0 == again.n_computed


def test_a_row_that_was_cut_short_and_a_damaged_file_are_computed_anew(
    nearness: PaperDistances, tmp_path: Path
) -> None:
    """An incomplete row and a damaged file are computed again."""
    expected = _matrix(nearness, Affinities(nearness, _profiles(nearness, PROFILES)), tmp_path)
    (path,) = (tmp_path / "match").glob("*.npy")
    rows = np.lib.format.open_memmap(path, mode="r+")
    rows[1, 1] = np.nan
    rows.flush()
    watched = _Watched(nearness, _profiles(nearness, PROFILES))
    assert (expected == _matrix(nearness, watched, tmp_path)).all()
    assert 1 == watched.n_computed
    path.write_bytes(path.read_bytes()[:50])
    assert (expected == _matrix(nearness, watched, tmp_path)).all()
    assert 5 == watched.n_computed


def test_other_profiles_are_another_matrix(nearness: PaperDistances, tmp_path: Path) -> None:
    """Other papers, names or numbers of nearest papers give another matrix."""
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


def test_another_meaning_of_an_affinity_is_another_matrix(nearness: PaperDistances, tmp_path: Path) -> None:
    """Rows are computed again if ``VERSION``, the meaning of an affinity, changes."""
    _matrix(nearness, Affinities(nearness, _profiles(nearness, PROFILES)), tmp_path)
    watched = _Watched(nearness, _profiles(nearness, PROFILES))
    _matrix(nearness, watched, tmp_path, version=VERSION + 1)
    assert 4 == watched.n_computed


def test_what_an_affinity_is_goes_with_its_version(nearness: PaperDistances, tmp_path: Path) -> None:
    """A change of these affinities requires another ``VERSION``, so that no match mixes old and new rows."""
    found = _matrix(nearness, Affinities(nearness, _profiles(nearness, PROFILES)), tmp_path)
    assert 1 == VERSION
    assert pytest.approx(FIGURES, abs=1e-5) == found


def test_rows_of_other_matches_go_when_one_is_complete(nearness: PaperDistances, tmp_path: Path) -> None:
    """A complete match removes the rows of others, even incomplete ones; an interrupted one removes none."""
    _matrix(nearness, Affinities(nearness, _profiles(nearness, PROFILES)), tmp_path)
    (first,) = (tmp_path / "match").iterdir()
    (tmp_path / "match/0.new").write_bytes(b"cut short")
    other = _Watched(nearness, _profiles(nearness, {"a": PROFILES["a"]}))
    other.most = 2
    with pytest.raises(KeyboardInterrupt):
        _matrix(nearness, other, tmp_path)
    assert first.exists()
    _matrix(nearness, Affinities(nearness, _profiles(nearness, {"a": PROFILES["a"]})), tmp_path)
    (kept,) = (tmp_path / "match").iterdir()
    assert first != kept


_ON_A_SMALL_DISK = """
import sys
from pathlib import Path
import numpy as np
from indexer.snapshot.opening import open_snapshot
from models.errors import StorageError
from service.match.affinity import Affinities
from service.match.matrix import VERSION, affinity_matrix
from service.match.paper_distances import PaperDistances

snapshot = open_snapshot(Path(sys.argv[1]))
nearness = PaperDistances(snapshot)
affinities = Affinities(nearness, {f"p{i}": np.array([i % len(snapshot)]) for i in range(5_000)})
try:
    affinity_matrix(nearness, affinities, np.arange(4), data=Path(sys.argv[2]), on_progress=lambda *_: None)
except StorageError as error:
    sys.exit(str(error))
"""


@pytest.mark.system
def test_a_full_disk_is_a_clear_error(hashed_data: Path, tmp_path: Path) -> None:
    """On a disk of 64 KiB, a matrix of 160,000 bytes is a clear error, and no signal ends the process."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with_disk = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=64k none "$0" && exec "$@"', str(disk)]
    try:
        subprocess.run([*with_disk, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a small disk is made with unshare of util-linux and mount")
    command = [sys.executable, "-c", _ON_A_SMALL_DISK, str(hashed_data), str(disk)]
    ended = subprocess.run([*with_disk, *command], check=False, capture_output=True, text=True)
    assert 1 == ended.returncode, ended.stderr
    assert "the disk is full; free some space" in ended.stderr
