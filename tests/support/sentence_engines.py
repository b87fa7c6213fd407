"""Collections with function vectors that need no weights, and engines over them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from indexer.snapshot.opening import open_snapshot
from models.annotator import Annotator
from models.encoder import Encoder
from models.types import EncodedPaper, EncoderSpec, Paper, Unit
from service.search.engine import SearchEngine
from tests.support.annotators import FirstColumns, KeywordTagger
from tests.support.builds import DEMO_CORPUS, build_quietly, write_corpus

N_FUNCTION_DIMS = 16


class Layered:
    """Gives an encoder two hidden layers: each sentence alone, without its context, in two random bases."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        shape = (2, encoder.spec.dim, encoder.spec.dim)
        self._bases = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)

    @property
    def spec(self) -> EncoderSpec:
        """The wrapped encoder's."""
        return self._encoder.spec

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode with the wrapped encoder, and each sentence alone for the layers."""
        return [self._with_layers(paper, layers) for paper in papers]

    def _with_layers(self, paper: Paper, layers: Sequence[int]) -> EncodedPaper:
        (encoded,) = self._encoder.encode([paper])
        if not layers:
            return encoded
        alone = [Paper("", "", sentence.text, (sentence,)) for sentence in paper.sentences]
        rows = np.concatenate([each.sentences for each in self._encoder.encode(alone)])
        states = rows @ self._bases[list(layers)]
        return replace(encoded, layers=states, openings=states)


class Whole(Layered):
    """Gives the wrapped encoder's document vectors alone: one a paper."""

    @property
    def spec(self) -> EncoderSpec:
        """The wrapped encoder's, for whole papers."""
        own = super().spec
        return EncoderSpec("whole", own.fingerprint, own.dim, own.normalised, Unit.DOCUMENT)

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode with the wrapped encoder; sentences are not told apart."""
        encoded = super().encode(papers)
        return [EncodedPaper(each.document[None], each.document, 0) for each in encoded]


def opened(data: Path, annotator: Annotator) -> SearchEngine:
    """An engine over ``data`` with an annotator that need not be the one it was indexed with."""
    return SearchEngine(open_snapshot(data), lambda: annotator, n_candidates=200)


def small_engine(tmp_path: Path, annotator: Annotator, papers: Sequence[dict[str, object]]) -> SearchEngine:
    """An engine over a few papers."""
    corpus = write_corpus(tmp_path / "c.jsonl", papers)
    data = tmp_path / "data"
    build_quietly(corpus, data, annotator.encoder, tagger=annotator.tagger, functions=annotator.functions)
    return opened(data, annotator)


def layered_annotator(hashing: Encoder) -> Annotator:
    """The hashing encoder with layers, facets by keywords and a stand-in for the encoder of functions."""
    functions = FirstColumns(hashing.spec.fingerprint, dim=N_FUNCTION_DIMS)
    return Annotator(Layered(hashing), tagger=KeywordTagger(), functions=functions)


def demo_engine(data: Path, made_by: Annotator) -> SearchEngine:
    """An engine over the demo corpus, whose facets are its own, with function vectors, made in ``data``."""
    build_quietly(DEMO_CORPUS, data, made_by.encoder, tagger=made_by.tagger, functions=made_by.functions)
    return opened(data, made_by)
