"""Encoders and engines for collections with function vectors, without weights."""

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
    """An encoder with two added hidden layers: each sentence, encoded alone, in two random bases."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        shape = (2, encoder.spec.dim, encoder.spec.dim)
        self._bases = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)

    @property
    def spec(self) -> EncoderSpec:
        """The spec of the wrapped encoder."""
        return self._encoder.spec

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode with the wrapped encoder; for the layers, encode each sentence alone."""
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
    """An encoder of only document vectors, one for each paper, from the wrapped encoder."""

    @property
    def spec(self) -> EncoderSpec:
        """The spec of the wrapped encoder, changed to whole papers."""
        own = super().spec
        return EncoderSpec("whole", own.fingerprint, own.dim, own.normalised, Unit.DOCUMENT)

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode with the wrapped encoder, and return only the document vector of each paper."""
        encoded = super().encode(papers)
        return [EncodedPaper(each.document[None], each.document, 0) for each in encoded]


def opened(data: Path, annotator: Annotator) -> SearchEngine:
    """Return an engine over ``data``; the annotator need not be the one used for indexing."""
    return SearchEngine(open_snapshot(data), lambda: annotator, n_candidates=200)


def small_engine(tmp_path: Path, annotator: Annotator, papers: Sequence[dict[str, object]]) -> SearchEngine:
    """Index a few papers and return an engine over them."""
    corpus = write_corpus(tmp_path / "c.jsonl", papers)
    data = tmp_path / "data"
    build_quietly(corpus, data, annotator.encoder, tagger=annotator.tagger, functions=annotator.functions)
    return opened(data, annotator)


def layered_annotator(hashing: Encoder) -> Annotator:
    """Return the hashing encoder with layers, facets by keywords and a stand-in for the function encoder."""
    functions = FirstColumns(hashing.spec.fingerprint, dim=N_FUNCTION_DIMS)
    return Annotator(Layered(hashing), tagger=KeywordTagger(), functions=functions)


def demo_engine(data: Path, made_by: Annotator) -> SearchEngine:
    """Index the demo corpus with its own facets and function vectors into ``data``; return an engine."""
    build_quietly(DEMO_CORPUS, data, made_by.encoder, tagger=made_by.tagger, functions=made_by.functions)
    return opened(data, made_by)
