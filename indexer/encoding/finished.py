"""Vectors that another process finished and did not publish: whoever publishes next takes them up.

WORK/taken/vectors-DIGEST/      as in indexer/encoding/parts.py, and papers.arrow, the part that they are of
"""

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float16, Int64

from indexer.catalog.quarantine import QuarantinedPaper
from indexer.encoding.parts import EncodedPart, is_kept, kept_part, vectors_name
from indexer.encoding.reading import last_reading, read_table
from indexer.files.durable import publish_folder, writer_lock
from models.checksums import digest_of, is_whole, sha256_of
from models.errors import BuildLockedError
from models.types import rows_of

CATALOGUED = "added.json"  # in the folder of a build: whose papers went into the catalog
_PAPERS = "papers.arrow"


class FinishedPart:
    """The papers of an encoded part at ``places``, in that order; those that were refused have no place."""

    def __init__(self, part: EncodedPart, places: Int64[np.ndarray, " n_papers"]) -> None:
        self._part = part
        self._places = places
        self._rows, self._offsets = rows_of(part.offsets(), places)

    @property
    def key(self) -> str:
        """What tells its content from any other."""
        return digest_of({"part": self._part.key, "places": self._places.tolist()})

    @property
    def n_rows(self) -> int:
        """How many sentence vectors there are."""
        return len(self._rows)

    @property
    def has_functions(self) -> bool:
        """Whether there was an encoder of functions."""
        return self._part.has_functions

    def rows(self) -> np.ndarray:
        """Sentence vectors, (n_rows, dim)."""
        return np.asarray(self._part.rows()[self._rows])

    def offsets(self) -> Int64[np.ndarray, " n_papers_plus_1"]:
        """Where each paper's rows begin and end, as in ``PackedVectors``."""
        return self._offsets

    def functions(self) -> Float16[np.ndarray, "n_rows dim_functions"]:
        """Function vectors, where there are some."""
        return np.asarray(self._part.functions()[self._rows])

    def table(self) -> pa.Table:
        """The papers' columns, every sentence with a facet."""
        return self._part.table().take(pa.array(self._places))


def take_up(build: Path, work: Path, wanted: Collection[str], models: str) -> None:
    """Link into ``work`` what the ``build`` that died finished of the versions ``wanted``, content hashes.

    Only of one that had put its papers into the catalog: those of others nobody waits for. Nothing is done
    where one is under way. Its files stay, for the same command given again. Raises StorageError.
    """
    if not (build / CATALOGUED).is_file():
        return
    with suppress(BuildLockedError), writer_lock(build.with_name(build.name + ".lock")):
        reading = last_reading(build)
        for part in () if reading is None else reading.parts:
            finished = build / vectors_name(part.sha256, models)
            papers = build / part.name
            if finished.is_dir() and is_whole(papers, part.sha256) and _holds(papers, wanted):
                _link(finished, papers, work / "taken" / finished.name)
        # So that later changes need not look through all of it.
        (build / CATALOGUED).unlink(missing_ok=True)


def finished_parts(
    work: Path, wanted: Collection[str], models: str
) -> Iterator[tuple[FinishedPart, list[QuarantinedPaper]]]:
    """What ``work`` has of the versions ``wanted`` (content hashes), as far as it is whole.

    With each part, those of its wanted papers that could not be encoded. No version comes twice.
    """
    left = set(wanted)
    for folder in sorted((work / "taken").glob("vectors-*")):
        papers = folder / _PAPERS
        is_of_these = papers.is_file() and folder.name == vectors_name(sha256_of(papers), models)
        if not is_of_these or not is_kept(folder):
            continue
        part = kept_part(papers, folder, reused=True)
        hashes = part.table()["content_hash"].to_pylist()
        places = np.array([i for i, digest in enumerate(hashes) if digest in left], dtype=np.int64)
        quarantined = [paper for paper in part.quarantined if paper.content_hash in left]
        left.difference_update(hashes, (paper.content_hash for paper in quarantined))
        if len(places) or quarantined:
            yield FinishedPart(part, places), quarantined


def _holds(papers: Path, wanted: Collection[str]) -> bool:
    hashes = read_table(papers)["content_hash"]
    return bool(pc.any(pc.is_in(hashes, value_set=pa.array(list(wanted), pa.string()))).as_py())


def _link(finished: Path, papers: Path, target: Path) -> None:
    if target.is_dir():
        return
    prepared = target.with_name("unfinished")
    shutil.rmtree(prepared, ignore_errors=True)
    prepared.mkdir(parents=True)
    for source, name in [*((path, path.name) for path in finished.iterdir()), (papers, _PAPERS)]:
        try:
            os.link(source, prepared / name)
        except OSError:  # some file systems have no links
            shutil.copyfile(source, prepared / name)
    publish_folder(prepared, target)
