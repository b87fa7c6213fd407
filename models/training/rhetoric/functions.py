"""Training of the head of a function encoder, on sentences labelled by their phrases (semantics 4.4).

The paper fine-tunes a whole transformer on sentences read alone. Here the head reads the hidden layers of an
unchanged encoder, so that one pass gives both the retrieval and the function vectors. The head learns from
each sentence twice, read in its abstract and read alone, because it is used on both.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float16, Float32, Int64

from models.encoder import PAPERS_PER_CALL, Encoder
from models.errors import InputError
from models.functions import Head
from models.training.rhetoric.objectives import OBJECTIVES, build_loss
from models.training.rhetoric.phrases import Example
from models.types import Paper, ProgressFn

BATCH = 64  # as in the paper
_WEIGHT_DECAY = 1e-4
_HELD_OUT = 0.1  # of the papers

# A score of how well vectors (n_rows, dim) find others with their label (n_rows,); higher is better.
Measure = Callable[[Float32[np.ndarray, "n_rows dim"], Int64[np.ndarray, " n_rows"]], float]


@dataclass(frozen=True, slots=True)
class HeadSettings:
    """The settings of a head and its training; the defaults are those of the shipped weights.

    Training starts from the principal components of the layers, so from similarities the encoder already
    has, with vectors of norm ``start_norm`` (root mean square). With a smaller norm, training moves further
    away from this start. Raises UnknownNameError or MissingPackageError for the objective.
    """

    objective: str = "softmax"
    dim: int = 128
    n_epochs: int = 5
    learning_rate: float = 3e-4  # of AdamW; falls linearly to 0
    start_norm: float = 10.0
    dropout: float = 0.2  # of the inputs
    seed: int = 0

    def __post_init__(self) -> None:
        build_loss(self.objective, n_functions=2, dim=self.dim)


@dataclass(frozen=True, slots=True)
class Features:
    """The hidden layers of labelled sentences, most of them twice: in context and ``alone``.

    ``labels`` are the numbers of the functions, ``papers`` those of the papers that the sentences are from.
    """

    rows: Float16[np.ndarray, "n_rows n_layers dim"]
    labels: Int64[np.ndarray, " n_rows"]
    papers: Int64[np.ndarray, " n_rows"]
    alone: Bool[np.ndarray, " n_rows"]


@dataclass(frozen=True, slots=True)
class TrainedHead:
    """The head of the epoch ``kept``, counted from 0, and each epoch's score on the held-out papers."""

    head: Head
    held_out: tuple[float, ...]
    kept: int


def encode_examples(
    examples: Sequence[Example],
    functions: Sequence[str],
    encoder: Encoder,
    *,
    layers: Sequence[int],
    on_progress: ProgressFn,
) -> Features:
    """Encode every example in its abstract and alone; a sentence past the encoder's token limit only alone.

    A label is an index into ``functions``. Raises EncoderError for layers that the encoder does not have, and
    InputError for a paper with hidden states beyond the range of float16.
    """
    of_paper: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        of_paper[example.paper.id].append(example)
    in_context = [(found[0].paper, [(e.sentence, e) for e in found]) for found in of_paper.values()]
    alone = [(lone_sentence(example), [(0, example)]) for example in examples]
    rows, labels, papers = [], [], []
    n_in_context = 0
    place = {paper_id: number for number, paper_id in enumerate(of_paper)}
    for stage, pairs in (("in context", in_context), ("alone", alone)):
        for start in range(0, len(pairs), PAPERS_PER_CALL):
            batch = pairs[start : start + PAPERS_PER_CALL]
            encoded = encoder.encode([paper for paper, _ in batch], layers=layers)
            for (_, wanted), read in zip(batch, encoded, strict=True):
                for number, example in wanted:
                    if read.layers is not None and number < read.layers.shape[1]:
                        rows.append(_in_float16(read.layers[:, number], example))
                        labels.append(functions.index(example.function))
                        papers.append(place[example.paper.id])
            on_progress(stage, start + len(batch), len(pairs))
        n_in_context = n_in_context or len(rows)
    is_alone = np.arange(len(rows)) >= n_in_context
    return Features(np.stack(rows), np.array(labels), np.array(papers), is_alone)


def _in_float16(layers: Float32[np.ndarray, "n_layers dim"], example: Example) -> Float16[np.ndarray, "_ _"]:
    with np.errstate(over="ignore"):
        rounded = layers.astype(np.float16)
    if not np.isfinite(rounded).all():
        raise InputError(
            f"Sentence {example.sentence + 1} of paper {example.paper.id!r} has hidden states that float16 "
            f"does not hold (the largest is {np.abs(layers).max():g}, of at most 65504). Leave the paper out "
            "with --exclude, or read other --layers."
        )
    return rounded


def of_labels(features: Features, labels: Sequence[int]) -> Features:
    """Return only the sentences with one of ``labels``, numbered again in the given order.

    Raises InputError for fewer than two labels.
    """
    if len(labels) < 2:
        raise InputError(f"{len(labels)} functions to learn from; at least two are needed.")
    number = np.full(int(features.labels.max()) + 1, -1)
    number[list(labels)] = np.arange(len(labels))
    kept = number[features.labels] >= 0
    return Features(
        features.rows[kept], number[features.labels[kept]], features.papers[kept], features.alone[kept]
    )


def lone_sentence(example: Example) -> Paper:
    """Return the sentence of an example as a paper of one sentence, without a title."""
    sentence = example.paper.sentences[example.sentence]
    return replace(example.paper, title="", abstract=sentence.text, sentences=(sentence,))


def require_dim(settings: HeadSettings, n_inputs: int) -> None:
    """Raise InputError if a head has more dimensions than the ``n_inputs`` numbers of the layers."""
    if settings.dim > n_inputs:
        raise InputError(
            f"{settings.dim} dimensions are more than the {n_inputs} numbers of the layers; give fewer "
            "dimensions or more layers."
        )


def train_head(
    features: Features, settings: HeadSettings, *, measure: Measure, on_progress: ProgressFn
) -> TrainedHead:
    """Train a head under one objective; equal arguments give an equal head on the same machine.

    A tenth of the papers is held out. After each epoch, ``measure`` scores their sentences (the mean of those
    in context and those alone); the head of the epoch with the best score is kept, the last one if no epoch
    has a score (NaN). Raises InputError for more dimensions than the layers have.
    """
    require_dim(settings, features.rows[0].size)
    rng = np.random.default_rng(settings.seed)
    held_out = held_out_rows(features.papers, rng)
    heads: list[Head] = []
    scores: list[float] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        for head in _heads(features, np.flatnonzero(~held_out), settings, rng):
            heads.append(head)
            scores.append(score_head(head, features, held_out, measure))
            on_progress("epochs", len(scores), settings.n_epochs)
    kept = len(scores) - 1 if np.isnan(scores).all() else int(np.nanargmax(scores))
    return TrainedHead(heads[kept], tuple(scores), kept)


def _heads(
    features: Features,
    training: Int64[np.ndarray, " n_rows"],
    settings: HeadSettings,
    rng: np.random.Generator,
) -> Iterator[Head]:
    """Yield the head after each epoch over the ``training`` rows of ``features``."""
    rows = features.rows.reshape(len(features.rows), -1)
    loss = build_loss(settings.objective, n_functions=int(features.labels.max()) + 1, dim=settings.dim)
    network = _Network(rows[training].astype(np.float32), settings)
    parameters = [*network.parameters(), *loss.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=settings.learning_rate, weight_decay=_WEIGHT_DECAY)
    n_steps = -(-len(training) // BATCH)  # of one epoch
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: 1 - step / (settings.n_epochs * n_steps)
    )
    per_class = OBJECTIVES[settings.objective].per_class
    batches = balanced_batches(features.labels[training], per_class=per_class, rng=rng)
    for _ in range(settings.n_epochs):
        for places in itertools.islice(batches, n_steps):
            batch = training[places]
            vectors = network(torch.from_numpy(rows[batch].astype(np.float32)))
            optimiser.zero_grad()
            loss(vectors, torch.from_numpy(features.labels[batch])).backward()
            optimiser.step()
            schedule.step()
        yield network.head()


def balanced_batches(
    labels: Int64[np.ndarray, " n_rows"], *, per_class: int, rng: np.random.Generator
) -> Iterator[Int64[np.ndarray, " n_batch"]]:
    """Yield batches of BATCH rows without end, each in runs of ``per_class`` rows with one label.

    Labels are drawn in random order, all before any is repeated, and so are the rows of each label. So every
    label counts the same, however many rows it has. With fewer labels than the paper's 77, a label may occur
    several times in a batch: about twice with ``per_class`` 1 and 33 labels.
    """
    turns = _endless(np.unique(labels), rng)
    rows = {label: _endless(np.flatnonzero(labels == label), rng) for label in np.unique(labels)}
    while True:
        chosen = itertools.islice(turns, BATCH // per_class)
        yield np.array([row for label in chosen for row in itertools.islice(rows[label], per_class)])


def _endless(values: Int64[np.ndarray, " n"], rng: np.random.Generator) -> Iterator[int]:
    while True:
        yield from rng.permutation(values).tolist()


def held_out_rows(
    papers: Int64[np.ndarray, " n_rows"], rng: np.random.Generator
) -> Bool[np.ndarray, " n_rows"]:
    """Return a mask of the rows of a tenth of the papers, at least one paper, drawn at random.

    Raises InputError for a single paper, which would leave nothing to train on.
    """
    numbers = np.unique(papers)
    if len(numbers) < 2:
        raise InputError("All examples are from one paper; give more papers, as a tenth of them is held out.")
    drawn = rng.permutation(numbers)[: max(1, round(_HELD_OUT * len(numbers)))]
    return np.isin(papers, drawn)


def score_head(
    head: Head, features: Features, chosen: Bool[np.ndarray, " n_rows"], measure: Measure
) -> float:
    """Return the mean of ``measure`` on the ``chosen`` sentences in context and on those alone, if any."""
    values = []
    for view in filter(np.any, (chosen & ~features.alone, chosen & features.alone)):
        layers = features.rows[view].swapaxes(0, 1).astype(np.float32)
        values.append(measure(head.vectors(layers), features.labels[view]))
    return float(np.mean(values))


class _Network(torch.nn.Module):
    """A head in training; its inputs are standardised by ``rows`` and go through dropout."""

    def __init__(self, rows: Float32[np.ndarray, "n_rows n_inputs"], settings: HeadSettings) -> None:
        super().__init__()
        mean, scale = rows.mean(axis=0), rows.std(axis=0) + 1e-6
        self._mean, self._scale = torch.from_numpy(mean), torch.from_numpy(scale)
        self._dropout = torch.nn.Dropout(settings.dropout)
        self._map = torch.nn.Linear(rows.shape[1], settings.dim)
        standard = (rows - mean) / scale
        _, axes = np.linalg.eigh(standard.T @ standard)  # in ascending order, in columns
        components = np.ascontiguousarray(axes.T[::-1][: settings.dim])
        norm = np.sqrt(np.mean(np.sum((standard @ components.T) ** 2, axis=1)))
        with torch.no_grad():
            self._map.weight.copy_(torch.from_numpy(components * settings.start_norm / norm))
            self._map.bias.zero_()

    def forward(self, rows: Float32[torch.Tensor, "n_rows n_inputs"]) -> Float32[torch.Tensor, "n_rows dim"]:
        """Return the vectors for the objectives, not yet of unit norm."""
        vectors: torch.Tensor = self._map(self._dropout((rows - self._mean) / self._scale))
        return vectors

    @torch.no_grad()
    def head(self) -> Head:
        """Return the head learnt so far, with the standardisation folded into the map."""
        weight = self._map.weight / self._scale
        return Head(weight.numpy(), (self._map.bias - weight @ self._mean).numpy())
