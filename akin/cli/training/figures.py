"""The figures of a trained encoder: its model card is made from them, and documents can be."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError

from akin.cli.training.config import RunConfig
from akin.cli.training.sets import REPORT
from indexer.files.durable import storage_errors
from models.training.cost import Cost
from models.training.examples import TrainingSet
from models.training.loop import State
from models.training.pairs.leaks import left_out
from models.types import Precision

# Settings with paths, which are left out: figures are published, the paths of a machine are not.
_WITH_PATHS = {"sets", "held_out", "facets", "functions"}


@dataclass(frozen=True, slots=True)
class SetFigures:
    """A training set; ``n_drawn`` examples of it were trained on, repeated ones included."""

    name: str
    n_examples: int
    n_texts: int
    n_drawn: int
    weight: float
    objective: Mapping[str, Any]
    licence: str
    left_out: str


@dataclass(frozen=True, slots=True)
class RunFigures:
    """A checkpoint as it was exported: settings, data, the loss of each step, held-out pairs and cost.

    ``measured`` has the steps of measurements and their figures, in percent; ``overlaps`` says what training
    sets and held-out pairs have in common. The cost is that of the whole run, until its last checkpoint.
    ``layer_shares`` are those of a learned mix of layers, embeddings first.
    """

    settings: Mapping[str, Any]
    sets: tuple[SetFigures, ...]
    step: int
    losses: Sequence[float]
    measured: Sequence[tuple[int, Mapping[str, float]]]
    overlaps: Sequence[str]
    cost: Cost
    layer_shares: Sequence[float]

    def content(self) -> bytes:
        """Return the figures as JSON."""
        figures = {**asdict(self), "papers_per_s": self.cost.papers_per_s}
        return orjson.dumps(figures, option=orjson.OPT_INDENT_2)


class _Report(BaseModel):
    """What the report of a recipe says of the papers that it left out."""

    left_out_by_the_leak_guard: dict[str, int] = {}
    evaluations: list[str] | None = None


class _Stored(BaseModel):
    """What the figures of a running or interrupted run say of its cost and number format."""

    cost: Cost = Cost()
    precision: Precision | None = None


def figures_of(
    config: RunConfig,
    sets: Sequence[TrainingSet],
    state: State,
    *,
    drawn: Sequence[int],
    overlaps: Sequence[str],
    cost: Cost,
    layer_shares: Sequence[float],
) -> RunFigures:
    """Return the figures of the checkpoint ``state``.

    ``config.share`` is how much of the change the encoder has, ``drawn`` how many examples of each set were
    trained on.
    """
    encoder = Path(config.encoder).name  # the name of a checkpoint is unchanged
    settings = config.model_dump(mode="json", exclude=_WITH_PATHS, exclude_none=True)
    return RunFigures(
        settings={**settings, "encoder": encoder},
        sets=tuple(
            SetFigures(
                name=own.path.name,
                n_examples=len(read.examples),
                n_texts=len(read.texts),
                n_drawn=n_drawn,
                weight=own.weight,
                objective=own.objective,
                licence=own.licence,
                left_out=_left_out(own.path),
            )
            for own, read, n_drawn in zip(config.sets, sets, drawn, strict=True)
        ),
        step=state.step,
        losses=state.history.losses,
        measured=state.history.measured,
        overlaps=overlaps,
        cost=cost,
        layer_shares=layer_shares,
    )


def stored_cost(file: Path) -> Cost:
    """Return the cost in the figures of a run; 0 if they have none, as those of an earlier version.

    Raises StorageError for a file that cannot be read.
    """
    return _stored(file).cost


def stored_precision(file: Path) -> Precision | None:
    """Return the number format of a run by its figures; ``None`` if they have none. Raises StorageError."""
    return _stored(file).precision


def _stored(file: Path) -> _Stored:
    if file.is_file():
        with suppress(orjson.JSONDecodeError, ValidationError), storage_errors(file):
            return _Stored.model_validate(orjson.loads(file.read_bytes()))
    return _Stored()


def _left_out(folder: Path) -> str:
    report = folder / REPORT
    if not report.is_file():
        return ""
    with suppress(orjson.JSONDecodeError, ValidationError):  # such as one written by hand
        found = _Report.model_validate(orjson.loads(report.read_bytes()))
        return left_out(found.left_out_by_the_leak_guard, found.evaluations)
    return ""
