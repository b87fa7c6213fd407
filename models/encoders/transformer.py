"""Runs a checkpoint over token sequences in length-sorted batches and pools windows of tokens."""

import copy
import os
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import structlog
import torch
from jaxtyping import Float32
from transformers import PreTrainedModel

from models.checkpoints.checkpoints import DocumentPooling, LocalCheckpoint, verify_weights
from models.checkpoints.fingerprints import fingerprint
from models.encoders.devices import (
    CPU,
    GIVEN_UP,
    default_batch_tokens,
    out_of_memory,
    resolve_device,
    resolve_precision,
)
from models.encoders.int8 import Int8Model
from models.encoders.loading import layers_of, load_checkpoint, load_layer_mix, load_wordpieces
from models.encoders.pooling import PaddedBatch, Window, mixed_states, pad_batch, pool_windows
from models.encoders.wordpieces import PaperTokens, plan_batches
from models.errors import DeviceFullError, EncoderError
from models.interruption import check_interruption
from models.types import EncoderSpec, Paper, Precision, Unit

# WordPieces of a sentence's opening. On CSAbstruct dev with linear models, the first four predict its facet
# as well as all of them, and both together are better.
OPENING = 4

log = structlog.get_logger(__name__)

# A forked process has none of torch's threads, and would wait for them forever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


class Transformer:
    """A checkpoint loaded on a device; ``max_tokens`` bounds the tokens between ``[CLS]`` and last ``[SEP]``.

    Weights are verified before they are loaded. ``precision`` is that of the transformer's matrix products;
    pooling is in float32. Raises WeightsError if weights are altered, incomplete or not those of an encoder,
    EncoderError for a missing device or an unsupported precision, DeviceFullError if a named device has too
    little memory; ``auto`` then uses the CPU.
    """

    def __init__(
        self,
        checkpoint: LocalCheckpoint,
        *,
        max_tokens: int,
        device: str = "auto",
        precision: Precision = Precision.FLOAT32,
        batch_tokens: int | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        chosen = resolve_device(device)
        weights_sha256 = verify_weights(checkpoint)
        self._models: dict[torch.device, Any] = {}  # of transformers, or Int8Model
        self._copying = threading.Lock()
        if not self._fits(chosen, precision):
            if device != "auto":
                raise DeviceFullError(
                    f"The memory of device {device!r} is full: {checkpoint.name!r} does not fit. Free some, "
                    "or choose device cpu, or auto, which takes the CPU then"
                )
            torch.cuda.empty_cache()
            log.warning("encoder_loaded_on_cpu", device=str(chosen))
            GIVEN_UP.add(chosen.type)
            self._fits(CPU, precision)
        self.batch_tokens = batch_tokens or default_batch_tokens(self.device)
        config = self._models[self.device].config
        self.wordpieces = load_wordpieces(checkpoint.folder, self._models[self.device], max_tokens=max_tokens)
        if self.precision is Precision.INT8:
            self._models[self.device] = Int8Model(self._models[self.device])
        self.max_tokens = self.wordpieces.max_tokens
        self.dim = int(config.hidden_size)
        self.fingerprint = fingerprint(checkpoint, weights_sha256, max_tokens=self.max_tokens)
        self.n_layers = int(config.num_hidden_layers)
        self._layer_mix = load_layer_mix(checkpoint, n_layers=self.n_layers)

    def spec(self, unit: Unit) -> EncoderSpec:
        """Return what a snapshot stores of an encoder that pools this transformer's states by ``unit``."""
        name, pooling = self.checkpoint.name, self.checkpoint.pooling
        return EncoderSpec(name, self.fingerprint, self.dim, pooling.normalise, unit, pooling.tau)

    def vectors(
        self, papers: Sequence[Paper], *, with_sentences: bool, layers: Sequence[int] = ()
    ) -> Iterator[tuple[PaperTokens, Float32[np.ndarray, "n_states n_rows dim"]]]:
        """Yield each paper's tokens and vectors, in order: a row for the document, then (if asked) sentences.

        The first of the states is the encoder's output, of unit norm if the checkpoint says so; then follow
        the requested hidden ``layers``, not normalised. With layers, a row for the opening of each sentence
        comes after all other rows. Raises EncoderError for a layer the model does not have, and for a vector
        that is not finite or cannot be normalised.
        """
        if not all(0 <= layer <= self.n_layers for layer in layers):
            raise EncoderError(
                f"Hidden layers {list(layers)} were requested; {self.checkpoint.name!r} has layers 0 (its "
                f"embeddings) to {self.n_layers}."
            )
        pooling = self.checkpoint.pooling
        tokens = self.wordpieces.tokenise(papers)
        windows = []
        for paper in tokens:
            document = (0, len(paper.ids) if pooling.document is DocumentPooling.MEAN else 1)
            sentences = paper.sentences if with_sentences else ()
            openings = [(start, min(start + OPENING, stop)) for start, stop in sentences] if layers else []
            windows.append([document, *sentences, *openings])
        pooled = self.pool([paper.ids for paper in tokens], windows, layers=layers)
        for paper, states in zip(tokens, pooled, strict=True):
            if pooling.normalise:
                states[0] = unit_rows(states[0])
            if not np.isfinite(states).all():
                raise EncoderError(
                    f"The encoder {self.checkpoint.name!r} gave a vector that is not finite or cannot be "
                    "normalised; check its weights, or choose another encoder."
                )
            yield paper, states

    def pool(
        self,
        sequences: Sequence[tuple[int, ...]],
        windows: Sequence[Sequence[Window]],
        *,
        layers: Sequence[int] = (),
    ) -> list[Float32[np.ndarray, "n_states _ dim"]]:
        """Return the mean hidden state of each ``(start, stop)`` window of each sequence of token ids.

        The first state is that of the last layer (or of the learned mix), the others those of ``layers``, all
        from one forward pass. Results are in the given order and, up to rounding, independent of which
        sequences share a batch. If a device runs out of memory, the batch is halved until it is one sequence,
        which then goes to the CPU, as do all later ones; the next call tries the device again.
        """
        pooled: dict[int, Float32[np.ndarray, "n_states _ dim"]] = {}
        budget, device = self.batch_tokens, self.device
        while len(pooled) < len(sequences):
            pending = [index for index in range(len(sequences)) if index not in pooled]
            lengths = [len(sequences[index]) for index in pending]
            plan = [[pending[i] for i in batch] for batch in plan_batches(lengths, batch_tokens=budget)]
            too_large = self._run(device, plan, sequences, windows, layers, pooled)
            if len(too_large) > 1:
                budget = len(too_large) * max(len(sequences[index]) for index in too_large) // 2
                log.warning("encoder_batch_halved", device=str(device), batch_tokens=budget)
            elif too_large:
                budget, device = default_batch_tokens(CPU), CPU
                log.warning("encoder_fell_back_to_cpu", device=str(self.device))
        return [pooled[index] for index in range(len(sequences))]

    def _run(
        self,
        device: torch.device,
        plan: Sequence[Sequence[int]],
        sequences: Sequence[tuple[int, ...]],
        windows: Sequence[Sequence[Window]],
        layers: Sequence[int],
        pooled: dict[int, Any],
    ) -> Sequence[int]:
        """Fill ``pooled`` batch by batch; return the first batch that did not fit in memory, else ``()``."""
        too_large: Sequence[int] = ()
        for batch in plan:
            try:
                own = [sequences[i] for i in batch], [windows[i] for i in batch]
                states = self.forward(device, *own, layers)
            except (RuntimeError, ValueError, LookupError) as error:
                if not out_of_memory(error):
                    raise EncoderError(
                        f"{self.checkpoint.name!r} failed to encode ({error}); {self._remedy()}."
                    ) from error
                if device == CPU and len(batch) == 1:
                    tokens = len(sequences[batch[0]])
                    raise EncoderError(
                        f"One paper of {tokens} tokens does not fit in memory; free some and try again."
                    ) from error
                too_large = batch
                break
            pooled.update(zip(batch, states, strict=True))
        # Outside the except block: while the error exists, its traceback keeps the failed batch's tensors.
        if too_large and device.type == "cuda":
            torch.cuda.empty_cache()
        return too_large

    def _remedy(self) -> str:
        """Return what to do if the model fails."""
        together = "check that its weights, configuration and tokenizer belong together"
        if self.precision is Precision.FLOAT32:
            return together
        return (
            f"not every architecture can be computed in {self.precision}: give --precision float32. If it "
            f"fails then too, {together}"
        )

    @torch.inference_mode()
    def forward(
        self,
        device: torch.device,
        sequences: Sequence[tuple[int, ...]],
        windows: Sequence[Sequence[Window]],
        layers: Sequence[int],
    ) -> list[Float32[np.ndarray, "n_states _ dim"]]:
        """Return the pooled states of one batch on a device; raises torch's error if it does not fit."""
        batch = pad_batch(sequences, windows).to(device)
        states = self._states(self._model_on(device), batch, layers)
        means = torch.stack(
            [pool_windows(batch, state) for state in states]
        )  # (n_states, n_batch, n_window, dim)
        rows = means.cpu().numpy()
        return [rows[:, row, : len(own)].copy() for row, own in enumerate(windows)]

    def _states(self, model: Any, batch: PaddedBatch, layers: Sequence[int]) -> list[torch.Tensor]:
        """Return the output states of all tokens, then those of ``layers``; each (n_batch, longest, dim)."""
        rounded = self.precision is Precision.BFLOAT16
        with torch.autocast(model.device.type, torch.bfloat16, enabled=rounded, cache_enabled=False):
            output = model(
                input_ids=batch.ids,
                attention_mask=batch.mask,
                output_hidden_states=self._layer_mix is not None or bool(layers),
                return_dict=True,  # config.json may ask for tuples
            )
        hidden = [output.hidden_states[layer].float() for layer in layers]
        if self._layer_mix is None:
            return [output.last_hidden_state.float(), *hidden]
        return [mixed_states(output.hidden_states, self._layer_mix), *hidden]

    def _fits(self, device: torch.device, precision: Precision) -> bool:
        """Load the model on ``device`` and return whether it fits; only a GPU can have too little memory."""
        self.device = device
        try:
            self.precision = resolve_precision(precision, device)
            self._models[device] = self._load(device)
        except RuntimeError as error:
            if device.type != "cuda" or not out_of_memory(error):
                raise
            return False
        return True

    def _model_on(self, device: torch.device) -> Any:
        """Return the model on ``device``, to which the first caller copies the loaded one."""
        with self._copying:
            if device not in self._models:
                self._models[device] = copy_to(self._models[self.device], device)
            return self._models[device]

    def _load(self, device: torch.device) -> PreTrainedModel:
        model: Any = load_checkpoint(self.checkpoint)
        if self.precision is Precision.BFLOAT16:
            # Only the products: residuals and layer norms in float32 cost 3 % of the speed and reduce the
            # error of vectors to a third (1 - cos 1.8e-5, not 5.1e-5, minilm). Cast once, not at every call.
            for module in model.modules():
                if isinstance(module, torch.nn.Linear):
                    module.to(torch.bfloat16)
        for layer in layers_of(model):
            # A pass over a long abstract takes a tenth of a second or more on a CPU.
            layer.register_forward_pre_hook(_between_layers)
        return model.to(device).eval()  # type: ignore[no-any-return] # transformers is untyped here


def unit_rows(rows: Float32[np.ndarray, "n_rows dim"]) -> Float32[np.ndarray, "n_rows dim"]:
    """Return ``rows`` divided by their L2 norms; rows whose norm is not above 0 and finite become NaN."""
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
    norms[~((norms > 0) & np.isfinite(norms))] = np.nan
    normalised: Float32[np.ndarray, "n_rows dim"] = rows / norms
    return normalised


def copy_to(model: PreTrainedModel, device: torch.device) -> PreTrainedModel:
    """Return a copy of ``model`` on ``device``, which needs no memory of the device that ``model`` is on."""
    # deepcopy takes these for copies that it has made.
    copies: dict[int, Any] = {id(own): own.to(device) for own in model.buffers()}
    for own in model.parameters():
        copies[id(own)] = torch.nn.Parameter(own.to(device), requires_grad=False)
    return copy.deepcopy(model, copies)


def _between_layers(*_: object) -> None:
    check_interruption()
