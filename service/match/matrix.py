"""The matrix of affinities of many submissions, computed by rows into a file that survives a kill."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import orjson
from jaxtyping import Float64, Int64

from indexer.files.arrays import load_array
from indexer.files.durable import storage_errors, write_array
from models.types import ProgressFn
from service.match.affinity import Affinities
from service.match.paper_distances import PaperDistances

# The version of the definition of affinity: raised with every change, so that rows of an older one are not
# used.
VERSION: Final = 1
_FOLDER: Final = "match"
_ROWS_AT_ONCE: Final = 32


def affinity_matrix(
    nearness: PaperDistances,
    affinities: Affinities,
    submissions: Int64[np.ndarray, " n_submissions"],
    *,
    data: Path,
    on_progress: ProgressFn,
    rows_at_once: int = _ROWS_AT_ONCE,
    version: int = VERSION,
) -> Float64[np.ndarray, "n_submissions n_profiles"]:
    """Return the affinities of the papers at positions ``submissions``, one row each.

    Rows are stored in a file below ``data``, named after generation, encoder, submissions and profiles: an
    interrupted run resumes where it stopped, and a repeated run computes nothing. Files of other matches
    there are removed once all rows are computed. Papers are read once per ``rows_at_once`` rows, and a kill
    loses at most this many. Rows of another ``version`` of affinity are computed again. Raises StorageError
    and DeadlineError.
    """
    spec = nearness.snapshot.manifest.encoder
    of = [nearness.snapshot.generation, spec.fingerprint, spec.tau]
    key = [version, of, submissions.tolist(), affinities.names, affinities.digest]
    name = hashlib.sha256(orjson.dumps(key)).hexdigest()[:24]
    path = data / _FOLDER / f"{name}.npy"
    n_rows = len(submissions)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _opened(path, (n_rows, len(affinities.names))) as (rows, file):
            # A partly written row still contains a nan.
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
    """Yield the rows of the file at ``path``, and the file; an incomplete file is replaced by one of nan."""
    rows = _read(path, shape) if path.is_file() else None
    if rows is None:
        rows, fresh = np.full(shape, np.nan), path.with_suffix(".new")
        write_array(fresh, [rows], shape=shape, dtype=rows.dtype)
        fresh.replace(path)
    with path.open("r+b") as file:
        yield rows, file


def _read(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    try:
        rows: np.ndarray = load_array(path)
    except (ValueError, EOFError):  # cut short
        return None
    return rows if rows.shape == shape and rows.dtype == np.float64 else None


def _write_rows(file: BinaryIO, rows: np.ndarray, some: Int64[np.ndarray, " n"]) -> None:
    """Write ``some`` of the rows without a memory map, with which a full disk would end the process."""
    first = os.fstat(file.fileno()).st_size - rows.nbytes
    for number in some.tolist():
        file.seek(first + number * rows[number].nbytes)
        file.write(rows[number].tobytes())
    file.flush()
