"""A tagger and an encoder of functions that need no weights, and annotators made with them."""

import hashlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32

from models.annotator import Annotator
from models.encoder import Encoder, load_encoder
from models.facets import FACETS, TaggerSpec
from models.functions import FunctionSpec
from models.types import Facet, Paper

KEYWORDS = {
    "propose": Facet.METHOD,
    "method": Facet.METHOD,
    "aim": Facet.OBJECTIVE,
    "show": Facet.RESULT,
    "result": Facet.RESULT,
    "code": Facet.OTHER,
}


def sha256(text: str) -> str:
    """A fingerprint."""
    return hashlib.sha256(text.encode()).hexdigest()


class KeywordTagger:
    """Facets by keywords, background without one; reads no layers unless told to, and then only shapes."""

    def __init__(self, name: str = "keywords", *, encoder: str | None = None, layers: tuple[int, ...] = ()):
        self.spec = TaggerSpec(name, sha256(name), encoder, layers)
        self.seen: list[np.ndarray] = []

    def tag(
        self, papers: Sequence[Paper], states: Sequence[Float32[np.ndarray, "n_states _ dim"]]
    ) -> list[Float32[np.ndarray, "_ 5"]]:
        """0.6 for the facet of the first keyword found, 0.1 for each other."""
        assert len(states) == (len(papers) if self.spec.layers else 0)
        self.seen += states
        return [np.stack([self._row(sentence.text) for sentence in paper.sentences]) for paper in papers]

    def _row(self, text: str) -> Float32[np.ndarray, " 5"]:
        found = (facet for word, facet in KEYWORDS.items() if word in text.lower())
        row = np.full(5, 0.1, dtype=np.float32)
        row[FACETS.index(next(found, Facet.BACKGROUND))] = 0.6
        return row


class FirstColumns:
    """Function vectors that are the first columns of the first of its layers, normalised."""

    def __init__(self, encoder: str, *, layers: tuple[int, ...] = (1,), dim: int = 8, name: str = "columns"):
        self.spec = FunctionSpec(name, sha256(f"{name} {layers}"), encoder, layers, dim)

    def vectors(
        self, layers: Float32[np.ndarray, "n_layers n_kept dim"]
    ) -> Float32[np.ndarray, "n_kept dim_functions"]:
        """Unit rows."""
        rows = layers[0, :, : self.spec.dim]
        unit: Float32[np.ndarray, "n_kept dim_functions"] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


def annotated(encoder: Encoder) -> Annotator:
    """An annotator that needs nothing but the encoder."""
    return Annotator(encoder, tagger=KeywordTagger())


def hashing_annotator() -> Annotator:
    """One of the hashing encoder, made anew."""
    return annotated(load_encoder("hashing"))
