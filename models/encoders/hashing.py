"""An encoder without weights: words and word pairs hashed into signed counts, for tests and first trials."""

import hashlib
import re
import zlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float32

from models.encoder import refuse_layers
from models.types import EncodedPaper, EncoderSpec, Paper, Unit

DIM = 256
PAIR_WEIGHT = 0.5
STOP_WORD_WEIGHT = 0.1
# The share of the whole paper in each sentence vector: a sentence in context, as in `contextual`.
CONTEXT = 0.2
_STOP_WORDS_TEXT = """
a also an and are as at be been both but by can for from has have how however in into is it its more not of on
or our such than that the their these this those to two using was we were what when where which while with
"""
STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())
_WORD = re.compile(r"\w+")


class HashingEncoder:
    """Unit sentence vectors whose inner products grow with the words and word pairs that texts share.

    They are the same on every machine and in every process: CRC-32 places the features, never ``hash()``.
    This is not a model of meaning; use it if lexical similarity is enough.
    """

    @property
    def spec(self) -> EncoderSpec:
        """The properties of this encoder that a snapshot stores."""
        decisive = repr((1, DIM, PAIR_WEIGHT, STOP_WORD_WEIGHT, CONTEXT, sorted(STOP_WORDS), _WORD.pattern))
        return EncoderSpec("hashing", hashlib.sha256(decisive.encode()).hexdigest(), DIM, True, Unit.SENTENCE)

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode ``papers``, in order; no sentence is ever dropped."""
        refuse_layers(self.spec, layers)
        return [self._encode(paper) for paper in papers]

    def _encode(self, paper: Paper) -> EncodedPaper:
        texts = [paper.title, *(sentence.text for sentence in paper.sentences)]
        counts = _feature_counts(texts)  # (1 + n_sentence, DIM)
        document = _unit(counts.sum(axis=0, keepdims=True))
        sentences = _unit(_unit(counts[1:]) + np.float32(CONTEXT) * document)
        return EncodedPaper(sentences, document[0], 0)


def _feature_counts(texts: Sequence[str]) -> Float32[np.ndarray, "n_texts dim"]:
    """Return signed, weighted feature counts: CRC-32 gives each feature a column and a sign."""
    columns: list[int] = []
    weights: list[float] = []
    for row, text in enumerate(texts):
        words = _WORD.findall(text.lower())
        features = [(word, STOP_WORD_WEIGHT if word in STOP_WORDS else 1.0) for word in words]
        features += [
            (f"{first} {second}", PAIR_WEIGHT * weight * next_weight)
            for (first, weight), (second, next_weight) in pairwise(features)
        ]
        for feature, weight in features:
            crc = zlib.crc32(feature.encode())
            columns.append(row * DIM + crc % DIM)
            weights.append(weight if crc & 0x8000_0000 else -weight)
    summed = np.bincount(np.array(columns, dtype=np.int64), weights, minlength=len(texts) * DIM)
    return summed.astype(np.float32).reshape(len(texts), DIM)


def _unit(rows: Float32[np.ndarray, "n_rows dim"]) -> Float32[np.ndarray, "n_rows dim"]:
    norms = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    # A text without words, or with features that cancel, still needs a direction; all such texts share one.
    wordless = np.zeros_like(rows)
    wordless[:, 0] = 1
    return np.where(norms > 0, rows / np.where(norms > 0, norms, np.float32(1)), wordless)
