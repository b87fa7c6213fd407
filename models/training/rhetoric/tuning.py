"""Fine-tuning of a whole encoder on labelled sentences, as in the paper, into a checkpoint folder.

Semantics 4.4: sentences are read alone; batches and objectives are the same as for the head. The vector of a
sentence is the mean of its WordPieces, as in the contextual encoder, instead of the paper's CLS vector.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Int64
from transformers import PreTrainedModel

from models.checkpoints.checkpoints import Pooling, locate_checkpoint, verify_weights
from models.encoders.contextual import MAX_TOKENS
from models.encoders.devices import expect_memory, resolve_device
from models.encoders.loading import load_checkpoint, load_wordpieces
from models.encoders.pooling import pad_batch, pool_windows
from models.encoders.wordpieces import PaperTokens
from models.errors import InputError
from models.new_folder import expect_new, new_folder
from models.training.export import write_encoder
from models.training.rhetoric.functions import BATCH, balanced_batches, lone_sentence
from models.training.rhetoric.objectives import OBJECTIVES, build_loss
from models.training.rhetoric.phrases import Example
from models.types import ProgressFn


@dataclass(frozen=True, slots=True)
class TuningSettings:
    """The settings of fine-tuning, by default those of the paper; ``learning_rate`` is the first step's."""

    objective: str = "softmax"
    n_epochs: int = 5
    learning_rate: float = 2e-5
    seed: int = 0


def tune_encoder(
    examples: Sequence[Example],
    functions: Sequence[str],
    name: str,
    target: Path,
    settings: TuningSettings,
    *,
    device: str,
    on_progress: ProgressFn,
) -> None:
    """Fine-tune the encoder ``name`` and write it to the folder ``target``; ``--encoder TARGET`` loads it.

    Its vectors then describe functions and have unit norm. Raises what ``load_encoder`` raises,
    MissingPackageError for the objective, InputError for a loss that is not finite, and StorageError if
    ``target`` has files or cannot be written.
    """
    expect_new(target)
    checkpoint = locate_checkpoint(name)
    verify_weights(checkpoint)
    labels = np.array([functions.index(example.function) for example in examples])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = load_checkpoint(checkpoint)
        wordpieces = load_wordpieces(checkpoint.folder, model, max_tokens=MAX_TOKENS)
        tokens = wordpieces.tokenise([lone_sentence(example) for example in examples])
        with expect_memory("free some, or use --device cpu"):
            model.to(resolve_device(device))  # type: ignore[arg-type] # transformers hides torch's own signature
            _tune(model, tokens, labels, settings, on_progress)
    with new_folder(target) as prepared:
        write_encoder(
            prepared, checkpoint.folder, model.state_dict(), Pooling(kind="contextual", normalise=True)
        )


def _tune(
    model: PreTrainedModel,
    tokens: Sequence[PaperTokens],
    labels: Int64[np.ndarray, " n_rows"],
    settings: TuningSettings,
    on_progress: ProgressFn,
) -> None:
    """Train the weights of ``model`` so that sentences with the same label get similar vectors.

    As in the paper's code, weights do not decay, and the rate falls linearly to 0.
    """
    per_class = OBJECTIVES[settings.objective].per_class
    batches = balanced_batches(labels, per_class=per_class, rng=np.random.default_rng(settings.seed))
    loss = build_loss(settings.objective, n_functions=int(labels.max()) + 1, dim=model.config.hidden_size)
    loss.to(model.device)
    parameters = [*model.parameters(), *loss.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=settings.learning_rate)
    n_steps = settings.n_epochs * -(-len(tokens) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / n_steps)
    model.train()
    for step, batch in enumerate(itertools.islice(batches, n_steps)):
        optimiser.zero_grad()
        vectors = sentence_means(model, [tokens[i] for i in batch])
        value = loss(vectors, torch.from_numpy(labels[batch]).to(model.device))
        if not torch.isfinite(value):
            raise InputError(
                f"The loss of step {step + 1} is {value.item()}, so nothing was written; give another "
                "objective."
            )
        value.backward()
        optimiser.step()
        schedule.step()
        on_progress("steps", step + 1, n_steps)


def sentence_means(
    model: PreTrainedModel, sentences: Sequence[PaperTokens]
) -> Float32[torch.Tensor, "n_rows dim"]:
    """Return the mean last hidden state over the WordPieces of each one-sentence paper, with gradients."""
    batch = pad_batch([own.ids for own in sentences], [own.sentences for own in sentences]).to(model.device)
    output = model(input_ids=batch.ids, attention_mask=batch.mask, return_dict=True)
    rows: torch.Tensor = pool_windows(batch, output.last_hidden_state)[:, 0]
    return rows
