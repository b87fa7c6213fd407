"""A checkpoint's transformer in training: all of its weights, or low-rank changes of some (LoRA).

Texts are read and pooled as in the contextual encoder (semantics 3.1, 3.2), with gradients. A learned mix of
hidden states (SPECTER-CoCite, semantics 3.12) is trained too.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from models.checkpoints.checkpoints import LAYER_MIX, DocumentPooling, LocalCheckpoint, verify_weights
from models.encoders.devices import expect_memory, resolve_device, resolve_precision
from models.encoders.loading import layers_of, load_checkpoint, load_layer_mix, load_wordpieces
from models.encoders.pooling import PaddedBatch, mixed_states, pad_batch, pool_windows
from models.encoders.wordpieces import PaperTokens, plan_batches
from models.errors import InputError
from models.extras import needed
from models.training.objectives.batch import Vectors
from models.types import Paper, Precision

# The part that peft adds to the name of a weight with a low-rank change.
_WRAPPED = ".base_layer."


@dataclass(frozen=True, slots=True)
class LowRank:
    """Low-rank changes (Hu et al. 2021): W + (alpha / rank) B A, for the linear layers named ``targets``.

    Without names: all linear layers inside the transformer's layers, whatever the architecture calls them.
    """

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0
    targets: tuple[str, ...] = ()


class Trainable:
    """The encoder of ``checkpoint`` with trainable weights: all of them if ``low_rank`` is None.

    ``max_tokens`` bounds each text as in ``Transformer``, ``batch_tokens`` one forward pass with padding.
    ``dropout`` replaces the rate of the checkpoint's dropout layers; a step without dropout takes 0.57 of the
    time on a CPU. ``precision`` is that of the matrix products, forwards and backwards; weights, pooling and
    losses keep theirs. ``layer_mix`` begins a mix with equal shares of all states, if a checkpoint of
    documents has none (ASPIRE begins near that, at random). Raises what ``load_encoder`` raises; InputError
    for INT8 and for low-rank changes that do not fit the model; MissingPackageError if low-rank changes need
    ``peft``.
    """

    def __init__(
        self,
        checkpoint: LocalCheckpoint,
        *,
        low_rank: LowRank | None,
        layer_mix: bool = False,
        max_tokens: int,
        batch_tokens: int,
        dropout: float = 0.0,
        precision: Precision = Precision.FLOAT32,
        device: str,
        seed: int,
    ) -> None:
        if precision is Precision.INT8:
            raise InputError(
                "int8 has no gradients, so it cannot be used for training; use auto, bfloat16 or float32."
            )
        verify_weights(checkpoint)
        self.checkpoint, self.low_rank, self._batch_tokens = checkpoint, low_rank, batch_tokens
        self.device = resolve_device(device)
        self.precision = resolve_precision(precision, self.device)
        base = load_checkpoint(checkpoint)
        for module in base.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
        self.wordpieces = load_wordpieces(checkpoint.folder, base, max_tokens=max_tokens)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model: Any = base if low_rank is None else _with_low_rank(base, low_rank)
        mix = load_layer_mix(checkpoint, n_layers=base.config.num_hidden_layers)
        if mix is None and layer_mix:
            mix = torch.zeros(base.config.num_hidden_layers + 1)
        self._drops = dropout > 0 or (low_rank is not None and low_rank.dropout > 0)
        with expect_memory("free some, or use --device cpu"):
            self._model = model.to(self.device)
            self.layer_mix = None if mix is None else torch.nn.Parameter(mix.to(self.device))

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """Return the trained parameters, by name."""
        own = {name: own for name, own in self._model.named_parameters() if own.requires_grad}
        return own if self.layer_mix is None else {**own, LAYER_MIX: self.layer_mix}

    def restore(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Set the trained parameters to ``weights``, which has a tensor for each."""
        with torch.no_grad():
            for name, own in self.parameters().items():
                own.copy_(weights[name])

    def tokenise(self, papers: Sequence[Paper]) -> list[PaperTokens]:
        """Return the WordPieces of each paper."""
        return self.wordpieces.tokenise(papers)

    def passes(self, tokens: Sequence[PaperTokens]) -> list[list[int]]:
        """Return the indices of the texts of each forward pass, of similar length, up to ``batch_tokens``."""
        return plan_batches([len(own.ids) for own in tokens], batch_tokens=self._batch_tokens)

    def encode(self, tokens: Sequence[PaperTokens], *, seed: int | None) -> Vectors:
        """Return the vectors of texts that fit one forward pass; no dropout if its ``seed`` is ``None``."""
        # Some architectures have dropout outside of Dropout layers, so train mode is only on if dropout is.
        self._model.train(seed is not None and self._drops)
        batch = self._padded(tokens)
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            if seed is not None:
                torch.manual_seed(seed)
            rounded = self.precision is Precision.BFLOAT16
            with torch.autocast(self.device.type, torch.bfloat16, enabled=rounded):
                output = self._model(
                    input_ids=batch.ids,
                    attention_mask=batch.mask,
                    output_hidden_states=self.layer_mix is not None,
                    return_dict=True,
                )
        mix, states = self.layer_mix, output.last_hidden_state
        pooled = pool_windows(batch, states if mix is None else mixed_states(output.hidden_states, mix))
        if self.checkpoint.pooling.normalise:
            pooled = torch.nn.functional.normalize(pooled, dim=-1, eps=1e-12)
        mask = torch.zeros(pooled.shape[:2], dtype=torch.bool)
        for row, own in enumerate(tokens):
            mask[row, 1 : 1 + len(own.sentences)] = True
        return Vectors(pooled[:, 1:], mask[:, 1:].to(self.device), pooled[:, 0])

    def merged(self) -> dict[str, torch.Tensor]:
        """Return all weights, with the low-rank changes merged in, under the names of the checkpoint."""
        changes = self.changes()
        merged = {}
        for name, tensor in self._bare().state_dict().items():
            if ".lora_" not in name:
                bare = name.replace(_WRAPPED, ".")
                change = changes.get(bare)
                own = tensor.detach().cpu()
                merged[bare] = own.clone() if change is None else own + change[0] @ change[1]
        if self.layer_mix is not None:
            merged[LAYER_MIX] = self.layer_mix.detach().cpu()[None].clone()
        return merged

    def changes(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Return the low-rank changes by name of the weight: (up, down), which add ``up @ down`` to it.

        Empty if all weights are trained.
        """
        found = {}
        for name, module in self._bare().named_modules():
            if hasattr(module, "base_layer"):
                up, down = module.lora_B["default"].weight, module.lora_A["default"].weight
                scaled = module.scaling["default"] * up
                found[f"{name}.weight"] = (scaled.detach().cpu(), down.detach().cpu().clone())
        return found

    def _bare(self) -> Any:
        """Return the transformer itself, without the wrappers of peft."""
        return self._model if self.low_rank is None else self._model.base_model.model

    def _padded(self, tokens: Sequence[PaperTokens]) -> PaddedBatch:
        whole = self.checkpoint.pooling.document is DocumentPooling.MEAN
        windows = [[(0, len(own.ids) if whole else 1), *own.sentences] for own in tokens]
        return pad_batch([own.ids for own in tokens], windows).to(self.device)


def _linear_layers(base: PreTrainedModel) -> list[str]:
    """Return the full names of the linear layers inside the transformer's layers."""
    layers = layers_of(base)
    prefix = next(name for name, module in base.named_modules() if module is layers)
    inside = layers.named_modules(prefix=prefix)
    return [name for name, module in inside if isinstance(module, torch.nn.Linear)]


def _with_low_rank(base: PreTrainedModel, low_rank: LowRank) -> Any:
    with needed("A low-rank change", extra="train"):
        import peft  # noqa: PLC0415 - optional
    config = peft.LoraConfig(
        r=low_rank.rank,
        lora_alpha=low_rank.alpha,  # type: ignore[arg-type]  # peft divides it by r, whatever number it is
        lora_dropout=low_rank.dropout,
        target_modules=list(low_rank.targets or _linear_layers(base)),
        # Never used here; named only if present, because peft warns about names it does not find.
        exclude_modules=[name for name, _ in base.named_modules() if name == "pooler.dense"] or None,
        bias="none",
    )
    try:
        with warnings.catch_warnings():
            # peft uses a name of transformers that is going to change.
            warnings.simplefilter("ignore", FutureWarning)
            changed = peft.get_peft_model(base, config)
    except ValueError as error:  # names that no layer has, or a rank of 0
        raise InputError(f"Low-rank changes {low_rank} do not fit this model: {error}") from error
    kinds = {type(own.base_layer) for own in changed.modules() if hasattr(own, "base_layer")}
    if odd := [kind.__name__ for kind in kinds if not issubclass(kind, torch.nn.Linear)]:
        raise InputError(
            f"Low-rank changes {low_rank} name a layer that is not linear ({odd[0]}); name only linear ones."
        )
    return changed
