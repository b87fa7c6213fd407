"""The run of ``akin train CONFIG.toml``: start or resume, measure, save, and write the encoder."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson
import torch

from akin.cli.training.card import model_card, reservation
from akin.cli.training.config import RunConfig, pooled_for, require_possible, settings_of
from akin.cli.training.curve import curve
from akin.cli.training.figures import figures_of, stored_cost, stored_precision
from evaluation.sets.pairs import read_set
from indexer.files.durable import folder_lock, replace_file, storage_errors
from models.checkpoints.checkpoints import locate_checkpoint, verify_weights
from models.checkpoints.fingerprints import fingerprint
from models.encoders.changes import changes_content
from models.encoders.devices import expect_memory
from models.errors import InputError
from models.new_folder import expect_new, new_folder
from models.registry import resolve
from models.training.batches import Mixing, Schedule
from models.training.cost import Cost
from models.training.examples import TrainingSet
from models.training.export import averaged, layer_shares, write_encoder
from models.training.held_out import measure_held_out
from models.training.loop import History, LoopSettings, State, Training
from models.training.objectives import OBJECTIVES
from models.training.objectives.batch import RetrievalObjective
from models.training.set_checks import overlaps, require_learnable
from models.training.storage import read_state, state_content
from models.training.trainable import LowRank, Trainable
from models.types import ProgressFn

LAST, BEST, CURVE, FIGURES = "last.safetensors", "best.safetensors", "curve.svg", "figures.json"
ENCODER, CHANGES, CARD = "encoder", "changes.safetensors", "README.md"

_TAU = 0.5  # the transport's temperature if neither configuration, objective nor checkpoint has one
# Settings that do not affect the trained weights; the content of the encoder counts, not its name.
_UNDECISIVE = {"name", "share", "facets", "functions", "encoder", "batch_tokens", "tau", "held_out"}
_UNDECISIVE_STEPS = {"checkpoint_every", "measure_every", "patience", "cache_gradients"}


class Run:
    """One run in the folder ``out``; raises InputError for settings that do not fit together.

    Reading a checkpoint raises InputError if the folder holds a run of another configuration.
    """

    def __init__(self, config: RunConfig, out: Path, *, device: str) -> None:
        self._out = out
        self.sets = [read_set(own.path) for own in config.sets]
        self.held_out = None if config.held_out is None else read_set(config.held_out.path)
        self._objectives = [build_objective(own.objective) for own in config.sets]
        self.tau = served_tau(self._objectives)
        require_possible(config)
        in_batch = config.mixing is Mixing.IN_BATCH
        require_learnable(self.sets, self._objectives, batch=config.steps.batch, in_batch=in_batch)
        self.overlaps = () if self.held_out is None else overlaps(self.held_out, self.sets)
        checkpoint = pooled_for(locate_checkpoint(config.encoder), config, self._objectives)
        self._measured_at = config.tau or self.tau or checkpoint.pooling.tau or _TAU
        base = fingerprint(checkpoint, verify_weights(checkpoint), max_tokens=config.max_tokens)
        self.settings: LoopSettings = settings_of(config.steps, LoopSettings)
        self.config = config
        n_batches = self.settings.n_steps * self.settings.accumulate
        for own, n_drawn in zip(self.sets, self._schedule().drawn(n_batches), strict=True):
            if n_drawn == 0:
                raise InputError(
                    f"{own.name} has so little weight that none of the {self.settings.n_steps:,} steps draws "
                    "from it; raise its weight or n_steps, or leave the set out."
                )
        low_rank = None if config.low_rank is None else settings_of(config.low_rank, LowRank)
        self.model = Trainable(
            checkpoint,
            low_rank=low_rank,
            layer_mix=config.layer_mix,
            max_tokens=config.max_tokens,
            batch_tokens=config.batch_tokens,
            dropout=config.dropout,
            precision=config.precision,
            device=device,
            seed=config.steps.seed,
        )
        self.config = config.model_copy(update={"layer_mix": self.model.layer_mix is not None})
        self.digest = _digest(_decisive(self.config, base), self.sets)
        self._measured_by = "" if self.held_out is None else self._measure_digest(self.held_out)

    def train(self, *, on_progress: ProgressFn) -> History:
        """Start, or resume from the last checkpoint; raises InputError or StorageError.

        Raises BuildLockedError if another process trains in the folder.
        """
        with folder_lock(self._out):
            return self._train(on_progress)

    def _train(self, on_progress: ProgressFn) -> History:
        there = [name for name in (LAST, BEST) if (self._out / name).exists()]
        state = self._state(there[0]) if there else None
        if state is None and (self._out / ENCODER).exists():
            raise InputError(f"{self._out} has files of another run; give a new --out, or delete the folder.")
        self._cost = Cost() if state is None else stored_cost(self._out / FIGURES)
        begun_in = None if state is None else stored_precision(self._out / FIGURES)
        if begun_in not in (None, self.model.precision):  # ``auto``, on another machine
            raise InputError(
                f"{self._out} was begun in {begun_in}, and this machine would go on in "
                f'{self.model.precision}. Give precision = "{begun_in}", or another --out.'
            )
        with expect_memory("lower batch_tokens or the batch, set cache_gradients, or use --device cpu"):
            training = Training(
                self.model, self.sets, self._objectives, self._schedule(), self.settings, self._cost
            )
            return training.run(state, measure=self._measure, keep=self._keep, on_progress=on_progress)

    def finish(self, *, commands: Sequence[str] = ()) -> str:
        """Write the best checkpoint as the run's encoder if there is none yet; return what ``write`` does."""
        folder, best = self._out / ENCODER, self._out / BEST
        if folder.exists():
            is_older = best.exists() and folder.stat().st_mtime < best.stat().st_mtime
            wanted = "the better checkpoint found since" if is_older else "another share of the change"
            message = f"{folder} already exists and stays as it is. Use it with: --encoder {folder}"
            return f"{message}. For {wanted}, run akin train export."
        return self.write(folder, share=self.config.share, commands=commands)

    def write(self, folder: Path, *, share: float, last: bool = False, commands: Sequence[str] = ()) -> str:
        """Write a checkpoint as an encoder with its card and figures, with low-rank changes next to it.

        Return a report. ``commands`` make the encoder, for the card. The changes are written first, so that
        all is there if the folder exists; with a mix of layers, which they lack, they are not written. Raises
        StorageError if ``folder`` has files or cannot be written.
        """
        expect_new(folder)
        state = self.restore(last=last)
        if self.model.low_rank is not None and not self.config.layer_mix:
            metadata = {"encoder": Path(self.config.encoder).name, "run": self.digest, "share": f"{share:g}"}
            beside = folder.with_name(f"{folder.name}-{CHANGES}")
            with storage_errors(beside):
                beside.parent.mkdir(parents=True, exist_ok=True)
                replace_file(beside, changes_content(self.model.changes(), share=share, metadata=metadata))
        drawn = self._schedule().drawn(state.step * self.settings.accumulate)
        precision = stored_precision(self._out / FIGURES) or self.config.precision
        known = {"share": share, "tau": self._measured_at, "precision": precision}
        config = self.config.model_copy(update=known)
        cost, weights = stored_cost(self._out / FIGURES), self._weights(share)
        shares = layer_shares(weights)
        figures = figures_of(
            config, self.sets, state, drawn=drawn, overlaps=self.overlaps, cost=cost, layer_shares=shares
        )
        card = model_card(config, figures, commands=commands).encode()
        self._export(folder, weights, {CARD: card, FIGURES: figures.content()})
        than_before = reservation(state, share=share)
        return f"Wrote the weights of step {state.step:,}.{than_before} Use them with: --encoder {folder}"

    def export(self, folder: Path, *, share: float = 1.0) -> None:
        """Write the encoder with its current weights to a new folder; ``share`` of the change is kept.

        Raises StorageError if ``folder`` has files or cannot be written.
        """
        self._export(folder, self._weights(share), {})

    def _weights(self, share: float) -> dict[str, torch.Tensor]:
        return averaged(self.model.checkpoint, self.model.merged(), share=share)

    def _export(self, folder: Path, weights: Mapping[str, torch.Tensor], beside: Mapping[str, bytes]) -> None:
        """Write the encoder with ``weights`` and the files ``beside`` them."""
        checkpoint = self.model.checkpoint
        with new_folder(folder) as prepared:
            pooling = checkpoint.pooling if self.tau is None else replace(checkpoint.pooling, tau=self.tau)
            write_encoder(prepared, checkpoint.folder, weights, pooling)
            for name, content in beside.items():
                (prepared / name).write_bytes(content)

    def restore(self, *, last: bool = False) -> State:
        """Load the weights of the best checkpoint into the model, and return its state.

        It is the last one instead if ``last``, or if none was chosen by the measurement configured now.
        """
        state = self._state(LAST if last or not (self._out / BEST).exists() else BEST)
        if state.measured_by != self._measured_by:
            state = self._state(LAST)
        self.model.restore(state.weights)
        return state

    def _schedule(self) -> Schedule:
        settings = self.settings
        return Schedule(
            [len(own.examples) for own in self.sets],
            [own.weight for own in self.config.sets],
            mixing=self.config.mixing,
            batch=settings.batch,
            n_steps=settings.n_steps * settings.accumulate,
            seed=settings.seed,
        )

    def _state(self, name: str) -> State:
        state = read_state(self._out / name, config=self.digest)
        if state.measured_by != self._measured_by:
            state.history.measured.clear()  # of other pairs, distances or tau, so not comparable
        return state

    def _measure(self) -> Mapping[str, float]:
        if self.held_out is None or self.config.held_out is None:
            return {}
        return measure_held_out(
            self.model, self.held_out, self.config.held_out.distances, tau=self._measured_at
        )

    def _measure_digest(self, held_out: TrainingSet) -> str:
        own = self.config.held_out
        return _digest({"tau": self._measured_at, "distances": own and own.distances}, [held_out])

    def _keep(self, state: State, is_best: bool) -> None:
        """Write a checkpoint, LAST as the final file: a run that is interrupted before comes here again."""
        state.measured_by = self._measured_by
        content = state_content(state, config=self.digest)
        with storage_errors(self._out):
            if is_best:
                replace_file(self._out / BEST, content)
            losses, measured = state.history.losses, state.history.measured
            figures = {"losses": losses, "measured": measured, "cost": self._cost}
            figures["precision"] = self.model.precision
            replace_file(self._out / FIGURES, orjson.dumps(figures))
            replace_file(self._out / CURVE, curve(state.history).encode())
            replace_file(self._out / LAST, content)


def build_objective(given: Mapping[str, object]) -> RetrievalObjective:
    """Return the objective of a configuration; raises UnknownNameError, or InputError for its settings."""
    name = given.get("name")
    if not isinstance(name, str):
        raise InputError(f"The objective {dict(given)!r} has no name; known: {', '.join(OBJECTIVES)}.")
    kind = resolve(OBJECTIVES, name, "objective")
    settings = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in given.items()
        if key != "name"
    }
    try:
        built: RetrievalObjective = kind(**settings)
    except TypeError as error:
        raise InputError(f"The objective {name!r} does not take {settings}: {error}.") from error
    return built


def served_tau(objectives: Sequence[RetrievalObjective]) -> float | None:
    """Return the temperature that the encoder is trained for, or None if no objective has one.

    Raises InputError if objectives have different ones, because a search has only one.
    """
    taus = sorted({float(own.served_tau) for own in objectives if own.served_tau is not None})
    if len(taus) > 1:
        found = ", ".join(map(str, taus))
        raise InputError(
            f"The objectives of the sets have different temperatures tau: {found}. A search "
            "compares papers at one; give all the same."
        )
    return taus[0] if taus else None


def _decisive(config: RunConfig, base: str) -> dict[str, Any]:
    """Return the settings that decide the trained weights, and the fingerprint of the original encoder."""
    decisive = config.model_dump(mode="json", exclude={*_UNDECISIVE, "steps", "sets"})
    if not config.layer_mix:
        del decisive["layer_mix"]  # earlier versions did not have it
    decisive["steps"] = config.steps.model_dump(mode="json", exclude=_UNDECISIVE_STEPS)
    decisive["sets"] = [own.model_dump(mode="json", exclude={"path", "licence"}) for own in config.sets]
    return {**decisive, "base": base}


def _digest(settings: Mapping[str, Any], sets: Sequence[TrainingSet]) -> str:
    """Return the SHA-256 (hex) of settings, texts and examples, without the paths of their files."""
    digest = hashlib.sha256(orjson.dumps(settings, option=orjson.OPT_SORT_KEYS))
    for own_set in sets:
        for name, paper in own_set.texts.items():
            digest.update(orjson.dumps([name, paper.title, [s.text for s in paper.sentences]]))
        digest.update(orjson.dumps([asdict(example) for example in own_set.examples]))
    return digest.hexdigest()
