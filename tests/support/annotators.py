"""A tagger and a function encoder that need no weights, and annotators with them."""

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
    """Return the SHA-256 of ``text`` in hexadecimal, as a fingerprint."""
    return hashlib.sha256(text.encode()).hexdigest()


class KeywordTagger:
    """A tagger by keywords, background without one; it takes ``layers`` but only stores them in ``seen``."""

    def __init__(self, name: str = "keywords", *, encoder: str | None = None, layers: tuple[int, ...] = ()):
        self.spec = TaggerSpec(name, sha256(name), encoder, layers)
        self.seen: list[np.ndarray] = []

    def tag(
        self, papers: Sequence[Paper], states: Sequence[Float32[np.ndarray, "n_states _ dim"]]
    ) -> list[Float32[np.ndarray, "_ 5"]]:
        """Return 0.6 for the facet of the first keyword found, 0.1 for each other facet."""
        assert len(states) == (len(papers) if self.spec.layers else 0)
        self.seen += states
        return [np.stack([self._row(sentence.text) for sentence in paper.sentences]) for paper in papers]

    def _row(self, text: str) -> Float32[np.ndarray, " 5"]:
        found = (facet for word, facet in KEYWORDS.items() if word in text.lower())
        row = np.full(5, 0.1, dtype=np.float32)
        row[FACETS.index(next(found, Facet.BACKGROUND))] = 0.6
        return row


class FirstColumns:
    """A function encoder whose vectors are the first columns of its first layer, normalised."""

    def __init__(self, encoder: str, *, layers: tuple[int, ...] = (1,), dim: int = 8, name: str = "columns"):
        self.spec = FunctionSpec(name, sha256(f"{name} {layers}"), encoder, layers, dim)

    def vectors(
        self, layers: Float32[np.ndarray, "n_layers n_kept dim"]
    ) -> Float32[np.ndarray, "n_kept dim_functions"]:
        """Return rows of unit norm."""
        rows = layers[0, :, : self.spec.dim]
        unit: Float32[np.ndarray, "n_kept dim_functions"] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


def annotated(encoder: Encoder) -> Annotator:
    """Return an annotator with this encoder and facets by keywords."""
    return Annotator(encoder, tagger=KeywordTagger())


def hashing_annotator() -> Annotator:
    """Return a new annotator with the hashing encoder."""
    return annotated(load_encoder("hashing"))
