"""The matrix of affinities of many submissions, computed some rows at a time into a file that kills spare."""

import hashlib
from pathlib import Path
from typing import Final

import numpy as np
import orjson
from jaxtyping import Float64, Int64

from indexer.files.durable import storage_errors
from models.types import ProgressFn
from service.match.affinity import Affinities
from service.match.nearness import Nearness

_FOLDER: Final = "match"
# Rows at a time: papers are read once for all of them, and a kill loses so many at most.
_N_ROWS: Final = 32


def affinity_matrix(
    nearness: Nearness,
    affinities: Affinities,
    submissions: Int64[np.ndarray, " n_submissions"],
    *,
    data: Path,
    on_progress: ProgressFn,
) -> Float64[np.ndarray, "n_submissions n_profiles"]:
    """The affinities of the papers at positions ``submissions``, one row each.

    Rows lie in a file below ``data``, named after generation, submissions and profiles: a run that was
    interrupted goes on where it stopped, and the same one again computes nothing. Raises StorageError and
    DeadlineError.
    """
    asked = [nearness.snapshot.generation, submissions.tolist(), affinities.names, affinities.digest]
    name = hashlib.sha256(orjson.dumps(asked)).hexdigest()[:24]
    path = data / _FOLDER / f"{name}.npy"
    n_rows = len(submissions)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = _opened(path, (n_rows, len(affinities.names)))
        # A row that was written in part has a nan left.
        missing = np.flatnonzero(np.isnan(rows).any(axis=1))
        for first in range(0, len(missing), _N_ROWS):
            on_progress("comparing", n_rows - len(missing) + first, n_rows)
            some = missing[first : first + _N_ROWS]
            rows[some] = affinities.of([nearness.indexed(each) for each in submissions[some].tolist()])
        on_progress("comparing", n_rows, n_rows)
        rows.flush()
        return np.array(rows)


def _opened(path: Path, shape: tuple[int, int]) -> np.memmap:
    """The file at ``path``, new and full of nan unless it is there whole."""
    if path.is_file():
        try:
            rows = np.lib.format.open_memmap(path, mode="r+")
            if rows.shape == shape and rows.dtype == np.float64:
                return rows
        except ValueError:  # cut short before it had its size
            pass
    fresh = path.with_suffix(".new")
    rows = np.lib.format.open_memmap(fresh, mode="w+", dtype=np.float64, shape=shape)
    rows[:] = np.nan
    rows.flush()
    fresh.replace(path)
    return rows
