"""A run: a system's ranking for every query of a collection, in the TREC run format."""

import math
from collections.abc import ItemsView, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from indexer.corpus.source import Lines, open_source
from indexer.files.durable import replace_file, storage_errors
from models.errors import InputError


class PaperScores(Mapping[str, float]):
    """Scores by paper, 12 bytes each: several runs share the ``paper_ids``, of which each has ``positions``.

    A single score is found in time linear in their number; read several by ``items``.
    """

    def __init__(
        self,
        paper_ids: Sequence[str],
        positions: Int64[np.ndarray, " n_scored"],
        scores: Float64[np.ndarray, " n_scored"],
    ) -> None:
        self._paper_ids = paper_ids
        self._positions = positions.astype(np.int32)
        self._scores = scores.astype(np.float64)

    def __iter__(self) -> Iterator[str]:
        return map(self._paper_ids.__getitem__, self._positions.tolist())

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, paper_id: str) -> float:
        return dict(self.items())[paper_id]

    def items(self) -> ItemsView[str, float]:
        """Return the ids and scores, like those of a dictionary."""
        return dict(zip(self, self._scores.tolist(), strict=True)).items()


@dataclass(frozen=True, slots=True)
class Run:
    """The scores ``scores[query id][paper id]`` that ``system`` gave; higher is better.

    Raises InputError if a score is not finite.
    """

    system: str
    scores: Mapping[str, Mapping[str, float]]

    def __post_init__(self) -> None:
        for query_id, scores in self.scores.items():
            for paper_id, score in scores.items():
                if not math.isfinite(score):
                    raise InputError(
                        f"Run {self.system!r} gives paper {paper_id!r} the score {score} for query "
                        f"{query_id!r}; a score is a finite number. Leave out papers that have none."
                    )

    def ranking(self, query_id: str) -> list[str]:
        """Return the paper ids of a query, best first, ties by ascending id; ``[]`` for an unanswered query.

        The ranking depends on the scores alone, never on the order in which they were given.
        """
        scores = dict(self.scores.get(query_id, {}).items())
        return sorted(scores, key=lambda paper_id: (-scores[paper_id], paper_id))


def write_trec(run: Run, path: Path) -> None:
    """Write ``run`` as lines ``query Q0 paper rank score system``, ranks from 1, scores in full precision.

    A query without papers adds no line. trec_eval breaks ties by descending id, ``Run.ranking`` by ascending
    id, so the figures of runs with ties differ slightly. Raises InputError for a name or id that is not one
    word, which the format cannot hold, and StorageError.
    """
    lines = []
    for query_id, of_query in run.scores.items():
        scores = dict(of_query.items())
        for rank, paper_id in enumerate(run.ranking(query_id), start=1):
            fields = (query_id, "Q0", paper_id, str(rank), repr(float(scores[paper_id])), run.system)
            if (line := " ".join(fields)).split() != list(fields):
                raise InputError(
                    f"The TREC run format separates fields by spaces, so it cannot hold {line!r}; give the "
                    f"system, queries and papers names of one word each."
                )
            lines.append(line + "\n")
    with storage_errors(path):
        replace_file(path, "".join(lines).encode())


def read_trec(path: Path, *, system: str | None = None) -> Run:
    """Read a file in the TREC run format, plain or gzipped; ``system`` replaces the name in the file.

    Scores count and the ranks next to them are ignored, as in trec_eval. Raises InputError, naming the line,
    if the format is broken or a paper comes twice for one query; InputError if two systems are mixed;
    StorageError.
    """
    scores: dict[str, dict[str, float]] = {}
    names: set[str] = set()
    with open_source(path) as stream:
        lines = Lines(stream, path)
        for line in lines:
            if line.isspace():
                continue
            query_id, paper_id, score, name = _fields(line, f"{path}:{lines.number}")
            if paper_id in scores.setdefault(query_id, {}):
                raise InputError(
                    f"{path}:{lines.number}: paper {paper_id!r} comes twice for query {query_id!r}; keep one."
                )
            scores[query_id][paper_id] = score
            names.add(name)
    if system is None and not names:
        raise InputError(f"{path} holds no line of a run; make the run again.")
    if system is None and len(names) > 1:
        raise InputError(
            f"{path} holds the runs of {len(names)} systems ({', '.join(sorted(names))}), expected one; "
            "split the file by its last column."
        )
    return Run(system=names.pop() if system is None else system, scores=scores)


def _fields(line: bytes, place: str) -> tuple[str, str, float, str]:
    try:
        fields = line.decode().split()
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: no UTF-8 text ({error}); give a file in the TREC run format.") from error
    if len(fields) != 6:
        raise InputError(
            f"{place}: {len(fields)} fields, expected the 6 of the TREC run format: "
            "query, Q0, paper, rank, score, system."
        )
    query_id, _, paper_id, _, score, name = fields
    try:
        number = float(score)
    except ValueError as error:
        raise InputError(f"{place}: the score {score!r} is not a number; repair the line.") from error
    if not math.isfinite(number):
        raise InputError(f"{place}: the score {score!r} is not finite; leave out papers that have no score.")
    return query_id, paper_id, number, name
