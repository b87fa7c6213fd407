"""The matrix of affinities of many submissions, computed some rows at a time into a file that kills spare."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import orjson
from jaxtyping import Float64, Int64

from indexer.files.durable import storage_errors, write_array
from models.types import ProgressFn
from service.match.affinity import Affinities
from service.match.nearness import Nearness

# Of what an affinity is: raised with every change of it, so that rows from before are not taken for others.
VERSION: Final = 1
_FOLDER: Final = "match"
_ROWS_AT_ONCE: Final = 32


def affinity_matrix(
    nearness: Nearness,
    affinities: Affinities,
    submissions: Int64[np.ndarray, " n_submissions"],
    *,
    data: Path,
    on_progress: ProgressFn,
    rows_at_once: int = _ROWS_AT_ONCE,
    version: int = VERSION,
) -> Float64[np.ndarray, "n_submissions n_profiles"]:
    """The affinities of the papers at positions ``submissions``, one row each.

    Rows lie in a file below ``data``, named after generation, encoder, submissions and profiles: a run that
    was interrupted goes on where it stopped, and the same one again computes nothing. Files of other matches
    there are removed once all rows are computed. Papers are read once for ``rows_at_once``, and a kill loses
    so many at most. Rows of another ``version`` of what an affinity is are computed anew. Raises StorageError
    and DeadlineError.
    """
    spec = nearness.snapshot.manifest.encoder
    of = [nearness.snapshot.generation, spec.fingerprint, spec.tau]
    asked = [version, of, submissions.tolist(), affinities.names, affinities.digest]
    name = hashlib.sha256(orjson.dumps(asked)).hexdigest()[:24]
    path = data / _FOLDER / f"{name}.npy"
    n_rows = len(submissions)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _opened(path, (n_rows, len(affinities.names))) as (rows, file):
            # A row that was written in part has a nan left.
            missing = np.flatnonzero(np.isnan(rows).any(axis=1))
            for first in range(0, len(missing), rows_at_once):
                on_progress("comparing", n_rows - len(missing) + first, n_rows)
                some = missing[first : first + rows_at_once]
                rows[some] = affinities.of([nearness.indexed(each) for each in submissions[some].tolist()])
                _write_rows(file, rows, some)
            on_progress("comparing", n_rows, n_rows)
            os.fsync(file.fileno())
        for other in path.parent.iterdir():
            if other != path:
                other.unlink()
        return rows


@contextmanager
def _opened(path: Path, shape: tuple[int, int]) -> Iterator[tuple[np.ndarray, BinaryIO]]:
    """What the file at ``path`` holds, and the file; new and full of nan unless it is there whole."""
    rows = _read(path, shape) if path.is_file() else None
    if rows is None:
        rows, fresh = np.full(shape, np.nan), path.with_suffix(".new")
        write_array(fresh, [rows], shape=shape, dtype=rows.dtype)
        fresh.replace(path)
    with path.open("r+b") as file:
        yield rows, file


def _read(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    try:
        rows: np.ndarray = np.load(path)
    except (ValueError, EOFError):  # cut short
        return None
    return rows if rows.shape == shape and rows.dtype == np.float64 else None


def _write_rows(file: BinaryIO, rows: np.ndarray, some: Int64[np.ndarray, " n"]) -> None:
    """Write ``some`` of the rows: plainly, for with a memory map a full disk would end the process."""
    first = os.fstat(file.fileno()).st_size - rows.nbytes
    for number in some.tolist():
        file.seek(first + number * rows[number].nbytes)
        file.write(rows[number].tobytes())
    file.flush()
