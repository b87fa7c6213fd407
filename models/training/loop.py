"""The loop of retrieval training: steps, held-out measurements, checkpoints and resuming.

A run is a function of its settings, data and seed: the random draws of a step depend only on the seed and the
step number, and a checkpoint holds the weights, the optimiser's moments and the history. So a run that was
killed and resumed ends with the same weights as an uninterrupted one, bit for bit on a CPU.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from models.errors import InputError
from models.training.assembly import assembled, joined
from models.training.batches import BatchDraw, Schedule
from models.training.cost import Cost
from models.training.examples import TrainingSet
from models.training.objectives.batch import RetrievalObjective, Vectors
from models.training.trainable import Trainable
from models.types import ProgressFn

_WEIGHT = "weight:"  # the prefix of the trained weights among the tensors of a state


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The settings of the loop: AdamW, a linear warm-up and a linear fall to ``last_rate`` of the rate.

    ``n_steps`` and ``warm_up`` count steps, ``batch`` examples; ``accumulate`` batches make one step.
    ``cache_gradients`` encodes each batch twice, so that memory holds one forward pass instead of the whole
    batch, while every example still counts as a negative for all others (gradient caching, Gao et al. 2021).
    ``patience``: stop after this many held-out measurements without a better one (None: never).
    """

    n_steps: int = 500
    batch: int = 12
    accumulate: int = 1
    learning_rate: float = 3e-5
    weight_decay: float = 0.01
    warm_up: int = 20
    last_rate: float = 0.02
    largest_gradient: float = 1.0
    cache_gradients: bool = False
    checkpoint_every: int = 50
    measure_every: int = 100
    patience: int | None = None
    seed: int = 0


@dataclass(slots=True)
class History:
    """The loss of each step, and ``(step, figures)`` of each held-out measurement."""

    losses: list[float] = field(default_factory=list)
    measured: list[tuple[int, dict[str, float]]] = field(default_factory=list)

    @property
    def best(self) -> int | None:
        """The trained step with the highest held-out figure, the first one named; the earliest of equals.

        Step 0, the encoder before training, does not count: only trained weights are written.
        """
        return _highest([one for one in self.measured if one[0] > 0])

    @property
    def highest(self) -> int | None:
        """The same as ``best``, but with step 0, so that patience also ends a run that only gets worse."""
        return _highest(self.measured)

    def figures_at(self, step: int | None) -> dict[str, float]:
        """Return the figures measured at ``step``; empty if there are none."""
        return next((figures for at, figures in self.measured if at == step), {})


@dataclass(slots=True)
class State:
    """Everything needed to resume a run: ``tensors`` are the trained weights and the optimiser's moments.

    ``measured_by`` is the digest of the set and settings of the held-out measurements.
    """

    step: int
    tensors: dict[str, torch.Tensor]
    history: History
    measured_by: str = ""

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The trained weights, by name."""
        own = {name: tensor for name, tensor in self.tensors.items() if name.startswith(_WEIGHT)}
        return {name.removeprefix(_WEIGHT): tensor for name, tensor in own.items()}


# Receives the state after a step, and whether it is the best measured until now.
KeepFn = Callable[[State, bool], None]
# Returns the figures of the current weights; the first one, where higher is better, selects the best step.
MeasureFn = Callable[[], Mapping[str, float]]


class Training:
    """A training run on ``sets``, with an objective for each, in the order of ``schedule``.

    The cost of its steps is added to ``cost``.
    """

    def __init__(
        self,
        model: Trainable,
        sets: Sequence[TrainingSet],
        objectives: Sequence[RetrievalObjective],
        schedule: Schedule,
        settings: LoopSettings,
        cost: Cost,
    ) -> None:
        self._model, self._sets, self._objectives = model, sets, objectives
        self._schedule, self._settings = schedule, settings
        self._parameters, self._cost = model.parameters(), cost
        self._optimiser = torch.optim.AdamW(
            self._parameters.values(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )

    def run(
        self, state: State | None, *, measure: MeasureFn, keep: KeepFn, on_progress: ProgressFn
    ) -> History:
        """Train from ``state`` (None: from the start) to the end, or until patience runs out.

        ``keep`` receives a state every ``checkpoint_every`` steps and after each measurement. Raises
        InputError if a loss or its gradient is not finite; the weights are then those of the step before.
        """
        settings = self._settings
        history = History() if state is None else state.history
        first = 0 if state is None else self._resume(state)
        if first == 0 and not history.measured:
            history.measured.append((0, dict(measure())))
        for step in range(first, settings.n_steps):
            if self._is_out_of_patience(history):
                break
            with self._cost.step(self._model.device):
                history.losses.append(self._step(step))
            done = step + 1
            on_progress("steps", done, settings.n_steps)
            measures = done % settings.measure_every == 0 or done == settings.n_steps
            if measures:
                history.measured.append((done, dict(measure())))
            if measures or done % settings.checkpoint_every == 0:
                keep(State(done, self._tensors(), history), measures and history.best == done)
        return history

    def _is_out_of_patience(self, history: History) -> bool:
        patience = self._settings.patience
        highest = history.highest
        if patience is None or highest is None:
            return False
        return sum(step > highest for step, _ in history.measured) >= patience

    def _step(self, step: int) -> float:
        """Take one step of the optimiser and return the mean loss over the accumulated batches."""
        settings = self._settings
        for group in self._optimiser.param_groups:
            group["lr"] = settings.learning_rate * rate_at(step, settings)
        self._optimiser.zero_grad()
        losses = []
        for part in range(settings.accumulate):
            number = step * settings.accumulate + part
            losses.append(self._accumulate(self._schedule[number], number))
        if settings.accumulate > 1:
            for parameter in self._parameters.values():
                if parameter.grad is not None:
                    parameter.grad /= settings.accumulate
        norm = torch.nn.utils.clip_grad_norm_(self._parameters.values(), settings.largest_gradient)
        loss = float(np.mean(losses))
        for what, value in (("loss", loss), ("gradient's norm", float(norm))):
            _expect_finite(f"The {what} of step {step + 1}", value)
        self._optimiser.step()
        return loss

    def _accumulate(self, drawn: BatchDraw, number: int) -> float:
        """Add the gradient of one batch and return its loss."""
        examples = [self._sets[of].examples[one] for of, one in drawn.chosen]
        own = [self._sets[of] for of, _ in drawn.chosen]
        names, papers = [], []
        for example, of in zip(examples, own, strict=True):
            for name in example.named:
                names.append(name)
                papers.append(of.texts[name])
        self._cost.n_papers += len(papers)
        tokens = self._model.tokenise(papers)
        passes = self._model.passes(tokens)
        seeds = [_seed(self._settings.seed, number, one) for one in range(len(passes))]

        def encoded() -> Iterator[Vectors]:
            for one, seed in zip(passes, seeds, strict=True):
                yield self._model.encode([tokens[i] for i in one], seed=seed)

        def loss_of(vectors: Sequence[Vectors]) -> torch.Tensor:
            together = joined(vectors, passes)
            step = number // self._settings.accumulate + 1
            total = together.documents.detach().sum() + together.sentences.detach().sum()
            _expect_finite(f"A vector of step {step}", total.item())
            batch = assembled(together, examples, self._sets)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(_seed(self._settings.seed, number, len(passes)))
                return self._objectives[drawn.leader](batch)

        if not self._settings.cache_gradients:
            loss = loss_of(list(encoded()))
            loss.backward()  # type: ignore[no-untyped-call] # torch is half typed
            return loss.item()
        with torch.no_grad():
            leaves = [_leaf(vectors) for vectors in encoded()]
        loss = loss_of(leaves)
        loss.backward()  # type: ignore[no-untyped-call] # torch is half typed
        for again, leaf in zip(encoded(), leaves, strict=True):
            outputs, gradients = [], []
            for vectors, cached in ((again.sentences, leaf.sentences), (again.documents, leaf.documents)):
                if cached.grad is not None:
                    outputs.append(vectors)
                    gradients.append(cached.grad)
            torch.autograd.backward(outputs, gradients)
        return loss.item()

    def _tensors(self) -> dict[str, torch.Tensor]:
        """Return copies of the weights and moments: training goes on while they are written."""
        tensors = {_WEIGHT + name: own.detach().cpu().clone() for name, own in self._parameters.items()}
        for name, own in self._parameters.items():
            moments: dict[str, Any] = self._optimiser.state.get(own, {})
            for key, value in moments.items():
                tensors[f"moment:{key}:{name}"] = value.detach().cpu().clone()
        return tensors

    def _resume(self, state: State) -> int:
        self._model.restore(state.weights)
        for name, own in self._parameters.items():
            for key in ("step", "exp_avg", "exp_avg_sq"):
                if (kept := state.tensors.get(f"moment:{key}:{name}")) is not None:
                    device = torch.device("cpu") if key == "step" else own.device
                    self._optimiser.state[own][key] = kept.to(device).clone()
        return state.step


def rate_at(step: int, settings: LoopSettings) -> float:
    """Return the factor of the learning rate at ``step``, from 0: a linear rise, times a linear fall."""
    rise = min(1.0, (step + 1) / settings.warm_up) if settings.warm_up else 1.0
    return rise * max(settings.last_rate, 1 - step / settings.n_steps)


def _expect_finite(what: str, value: float) -> None:
    if not math.isfinite(value):
        raise InputError(
            f"{what} is not finite; lower the learning rate or raise the temperature, and train again: the "
            "last checkpoint is as it was."
        )


def _highest(measured: Sequence[tuple[int, dict[str, float]]]) -> int | None:
    found = [(next(iter(figures.values())), -step) for step, figures in measured if figures]
    return -max(found)[1] if found else None


def _leaf(vectors: Vectors) -> Vectors:
    return Vectors(
        vectors.sentences.detach().requires_grad_(), vectors.mask, vectors.documents.detach().requires_grad_()
    )


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint32)[0])
