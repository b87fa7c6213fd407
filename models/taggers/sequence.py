"""Tags all sentences of an abstract together, from hidden layers, n-grams, positions and neighbours.

Each sentence is described by the encoder's hidden layers (of the whole sentence and of its opening), by its
n-grams and by its position. A recurrent layer reads the descriptions in both directions, and a linear-chain
conditional random field turns its scores into the facet probabilities of each sentence, given the whole
abstract. ``models.training.facets`` trains it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float32
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import nn

from models.encoders.wordpieces import plan_batches
from models.errors import EncoderError, WeightsError
from models.facets import FACETS, METADATA, TaggerSpec
from models.taggers.features import POSITIONS, Batch, FeatureExtractor
from models.taggers.files import content_of, metadata_of, name_of
from models.types import Paper

KIND = "sequence"
_N_FACETS = len(FACETS)
_POSITION_DIM = 16
# Sentences per batch, padding included; abstracts of similar length share a batch.
_SENTENCES_AT_ONCE = 1_024
_VOCABULARY = "vocabulary"


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model; ``n_inputs`` counts inputs from hidden layers per sentence, 0 for text only."""

    n_inputs: int
    projected: int
    ngram_dim: int
    hidden: int


class SequenceModel(nn.Module):
    """One member of a tagger's ensemble, from descriptions of sentences to log probabilities of facets.

    The vectors of n-grams are initialised at random unless they are given.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        n_ngrams: int,
        vectors: Float32[torch.Tensor, "n_ngrams_plus_1 ngram_dim"] | None = None,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        described = _POSITION_DIM + shape.ngram_dim + (shape.projected if shape.n_inputs else 0)
        self.project = nn.Linear(shape.n_inputs, shape.projected) if shape.n_inputs else None
        # Place 0, with weight 0, is used if no n-gram of a sentence is known.
        self.ngrams = nn.EmbeddingBag(n_ngrams + 1, shape.ngram_dim, mode="sum", _weight=vectors)
        self.position = nn.Linear(POSITIONS, _POSITION_DIM)
        self.norm = nn.LayerNorm(described)
        self.neighbours = nn.LSTM(described, shape.hidden, bidirectional=True, batch_first=True)
        self.output = nn.Linear(2 * shape.hidden + described, _N_FACETS)
        self.transition = nn.Parameter(torch.zeros(_N_FACETS, _N_FACETS))  # from row to column
        self.first = nn.Parameter(torch.zeros(_N_FACETS))
        self.last = nn.Parameter(torch.zeros(_N_FACETS))
        self.dropout = nn.Dropout(dropout)
        self.input_dropout = nn.Dropout(input_dropout)

    def forward(self, batch: Batch) -> Float32[torch.Tensor, "n_papers n_longest 5"]:
        """Return the log probability of each facet of each sentence; places of padding have no meaning."""
        return log_marginals(self.scores(batch), batch.mask, self.transition, self.first, self.last)

    def scores(self, batch: Batch) -> Float32[torch.Tensor, "n_papers n_longest 5"]:
        """Return the score of each facet of each sentence, before the facets of neighbours are considered."""
        n_papers, n_longest = batch.mask.shape
        ngrams = self.ngrams(batch.ngrams, batch.offsets, per_sample_weights=batch.ngram_weights)
        parts = [ngrams.view(n_papers, n_longest, -1), nn.functional.gelu(self.position(batch.positions))]
        if self.project is not None:
            parts.append(nn.functional.gelu(self.project(self.input_dropout(batch.states))))
        described = self.dropout(self.norm(torch.cat(parts, dim=-1)))
        packed = nn.utils.rnn.pack_padded_sequence(
            described, batch.mask.sum(dim=1), batch_first=True, enforce_sorted=False
        )
        read, _ = nn.utils.rnn.pad_packed_sequence(
            self.neighbours(packed)[0], batch_first=True, total_length=n_longest
        )
        scores: torch.Tensor = self.output(torch.cat([self.dropout(read), described], dim=-1))
        return scores


def log_marginals(
    scores: Float32[torch.Tensor, "n n_longest 5"],
    mask: Bool[torch.Tensor, "n n_longest"],
    transition: Float32[torch.Tensor, "*n 5 5"],
    first: Float32[torch.Tensor, "*n 5"],
    last: Float32[torch.Tensor, "*n 5"],
) -> Float32[torch.Tensor, "n n_longest 5"]:
    """Return the log marginals of linear-chain random fields, by the forward and backward recursions.

    ``transition`` (from row to column), ``first`` and ``last`` are given once for all sequences, or per
    sequence.
    """
    n_longest = scores.shape[1]
    before = [first + scores[:, 0]]
    for place in range(1, n_longest):
        reached = torch.logsumexp(before[-1][:, :, None] + transition, dim=1) + scores[:, place]
        before.append(torch.where(mask[:, place, None], reached, before[-1]))
    after = [last.expand(len(scores), -1)]
    for place in range(n_longest - 1, 0, -1):
        left = torch.logsumexp(transition + (scores[:, place] + after[-1])[:, None], dim=2)
        after.append(torch.where(mask[:, place, None], left, after[-1]))
    return torch.log_softmax(torch.stack(before, dim=1) + torch.stack(after[::-1], dim=1), dim=2)


class SequenceTagger:
    """The tagger of a weights file, which returns the mean of its members' probabilities.

    Raises WeightsError for a file that does not hold the weights of a tagger.
    """

    def __init__(self, path: Path) -> None:
        try:
            metadata, tensors, sha = _read(path)
            self.spec = TaggerSpec(name_of(path), sha, metadata["encoder"], tuple(metadata["layers"]))
            names = bytes(tensors.pop(_VOCABULARY).numpy()).decode().split("\n")
            shared = (tensors.pop(name).float().numpy() for name in ("idf", "mean", "scale"))
            self.extractor = FeatureExtractor(
                {name: place for place, name in enumerate(names, start=1)}, *shared
            )
            self.members = [
                _member(tensors, number, Shape(**metadata["shape"]), len(names))
                for number in range(metadata["n_members"])
            ]
        except (
            OSError,
            EOFError,
            SafetensorError,
            KeyError,
            TypeError,
            ValueError,
            RuntimeError,
            AssertionError,  # of torch, for vectors of n-grams of a wrong shape
        ) as error:
            raise WeightsError(
                f"{path} does not hold the weights of a facet tagger ({error}); train them with: akin train "
                "facets."
            ) from error

    @torch.inference_mode()
    def tag(
        self, papers: Sequence[Paper], states: Sequence[Float32[np.ndarray, "n_states _ dim"]]
    ) -> list[Float32[np.ndarray, "_ 5"]]:
        """Return the probabilities of FACETS for every sentence of every paper, in order; rows sum to 1.

        Raises EncoderError if the number of states does not fit the papers and the tagger's layers.
        """
        if len(states) != (len(papers) if self.spec.layers else 0):
            raise EncoderError(
                f"{self.spec.name!r} got hidden states of {len(states)} papers for {len(papers)}; it reads "
                f"layers {list(self.spec.layers)}."
            )
        lengths = [len(paper.sentences) for paper in papers]
        tagged: dict[int, Float32[np.ndarray, "_ 5"]] = {}
        for places in plan_batches(lengths, batch_tokens=_SENTENCES_AT_ONCE):
            batch = self.extractor.batch(
                [papers[place] for place in places], [states[place] for place in places] if states else []
            )
            for place, own in zip(places, self._probabilities(batch).numpy(), strict=True):
                tagged[place] = own[: lengths[place]].copy()
        return [tagged[place] for place in range(len(papers))]

    def _probabilities(self, batch: Batch) -> Float32[torch.Tensor, "n_papers n_longest 5"]:
        """Return the mean over the members; their random fields are decoded together, to save small steps."""
        n_members, n_papers = len(self.members), len(batch.mask)
        fields = (
            torch.stack([getattr(member, name) for member in self.members]).repeat_interleave(n_papers, dim=0)
            for name in ("transition", "first", "last")
        )
        scores = torch.cat([member.scores(batch) for member in self.members])
        found = log_marginals(scores, batch.mask.repeat(n_members, 1), *fields).exp()
        return found.view(n_members, n_papers, *found.shape[1:]).mean(dim=0)


def weights_content(
    members: Sequence[SequenceModel], extractor: FeatureExtractor, shape: Shape, metadata: Mapping[str, Any]
) -> bytes:
    """Return the content of a weights file, members and idf in float16; equal arguments give equal bytes.

    ``metadata`` has at least ``encoder`` (fingerprint, or null for text only) and ``layers``.
    """
    names = sorted(extractor.vocabulary, key=lambda name: extractor.vocabulary[name])
    tensors = {
        _VOCABULARY: torch.tensor(list("\n".join(names).encode()), dtype=torch.uint8),
        "idf": torch.from_numpy(extractor.idf).half(),
        "mean": torch.from_numpy(extractor.mean),
        "scale": torch.from_numpy(extractor.scale),
    }
    for number, member in enumerate(members):
        for name, tensor in member.state_dict().items():
            tensors[f"{number}.{name}"] = tensor.half()
    sizes = {name: getattr(shape, name) for name in Shape.__dataclass_fields__}
    metadata = {**metadata, "kind": KIND, "shape": sizes, "n_members": len(members)}
    return save(tensors, metadata={METADATA: json.dumps(metadata, sort_keys=True)})


def _read(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor], str]:
    """Return the metadata of a file, its tensors, and the SHA-256 (hex) of its unpacked content."""
    content = content_of(path)
    return json.loads(metadata_of(path)[METADATA]), load(content), sha256(content).hexdigest()


def _member(tensors: Mapping[str, torch.Tensor], number: int, shape: Shape, n_ngrams: int) -> SequenceModel:
    prefix = f"{number}."
    own = {name.removeprefix(prefix): t.float() for name, t in tensors.items() if name.startswith(prefix)}
    with torch.device("meta"):  # initialises no weights: those of the file replace them
        # Vectors are given, because torch would load its compiler, 1.4 s, to initialise them on "meta".
        model = SequenceModel(shape, n_ngrams=n_ngrams, vectors=own["ngrams.weight"])
    model.load_state_dict(own, assign=True)
    return model.eval()
