"""Describes sentences for a sequence tagger: hidden states, n-grams and positions in the abstract."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64

from models.types import Paper

POSITIONS = 6  # numbers that describe the position of a sentence
# The L2 norm of the weights of a sentence's n-grams, which are proportional to their idf.
_NGRAM_SCALE = 3.0
_WORD = re.compile(r"[a-z]+|\d+|[^\sa-z\d]")


@dataclass(frozen=True, slots=True)
class Batch:
    """Several abstracts as tensors, padded to the longest.

    ``ngrams`` are numbers in the vocabulary, with ``ngram_weights``; those of each place begin at
    ``offsets``.
    """

    states: Float32[torch.Tensor, "n_papers n_longest n_inputs"]
    ngrams: Int64[torch.Tensor, " n_ngrams"]
    offsets: Int64[torch.Tensor, " n_places"]
    ngram_weights: Float32[torch.Tensor, " n_ngrams"]
    positions: Float32[torch.Tensor, "n_papers n_longest 6"]
    mask: Bool[torch.Tensor, "n_papers n_longest"]


@dataclass(frozen=True, slots=True)
class FeatureExtractor:
    """A map of abstracts to tensors, the same as in the training of a model.

    ``vocabulary`` numbers the known n-grams from 1; ``idf`` (n_ngrams + 1,) has their inverse document
    frequencies, 0 at place 0. ``mean`` and ``scale`` (n_inputs,) standardise hidden states.
    """

    vocabulary: Mapping[str, int]
    idf: Float32[np.ndarray, " n_ngrams_plus_1"]
    mean: Float32[np.ndarray, " n_inputs"]
    scale: Float32[np.ndarray, " n_inputs"]

    def batch(
        self, papers: Sequence[Paper], states: Sequence[Float32[np.ndarray, "n_states _ dim"]]
    ) -> Batch:
        """Return ``papers`` as a batch; a sentence beyond the encoder's token limit has average states."""
        lengths = [len(paper.sentences) for paper in papers]
        inputs = np.zeros((len(papers), max(lengths), len(self.mean)), dtype=np.float32)
        positions = np.zeros((len(papers), max(lengths), POSITIONS), dtype=np.float32)
        mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
        known: list[list[int]] = []
        for number, paper in enumerate(papers):
            positions[number, : lengths[number]] = position_features(lengths[number])
            if states:
                rows = states[number].swapaxes(0, 1).reshape(states[number].shape[1], -1)
                inputs[number, : len(rows)] = (rows - self.mean) / self.scale
            known += [self._known(sentence.text) for sentence in paper.sentences]
            known += [[0]] * (max(lengths) - lengths[number])
        weights = [self._weights(places) for places in known]
        return Batch(
            torch.from_numpy(inputs),
            torch.tensor([place for places in known for place in places]),
            torch.tensor(np.cumsum([0, *map(len, known[:-1])])),
            torch.from_numpy(np.concatenate(weights)),
            torch.from_numpy(positions),
            torch.from_numpy(mask),
        )

    def _known(self, text: str) -> list[int]:
        known = self.vocabulary.keys() & ngrams(text)
        return [self.vocabulary[ngram] for ngram in sorted(known)] or [0]

    def _weights(self, places: Sequence[int]) -> Float32[np.ndarray, " n_places"]:
        idf = self.idf[list(places)]
        norm = float(np.linalg.norm(idf))
        weights: Float32[np.ndarray, " n_places"] = np.float32(_NGRAM_SCALE / (norm or 1.0)) * idf
        return weights


def ngrams(text: str) -> set[str]:
    """Return the distinct n-grams of a sentence, up to three words, with its ends marked and numbers as 0."""
    words = ["0" if word.isdigit() else word for word in _WORD.findall(text.lower())]
    words = ["<s>", *words, "</s>"]
    pairs = [f"{first} {second}" for first, second in pairwise(words)]
    return {*words, *pairs, *(f"{pair} {third}" for pair, third in zip(pairs, words[2:], strict=False))}


def position_features(n_sentences: int) -> Float32[np.ndarray, "n_sentences 6"]:
    """Return six numbers for each sentence, which describe its place and the length of the abstract."""
    places = np.arange(n_sentences)
    share = places / max(n_sentences - 1, 1)
    ends = (places == 0, places == n_sentences - 1)
    columns = (share, share**2, *ends, np.full(n_sentences, n_sentences / 10), np.minimum(places, 10) / 10)
    return np.stack(columns, axis=1).astype(np.float32)
