"""The interface of taggers, from papers to facet probabilities of sentences; ``load_tagger`` loads one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from jaxtyping import Float32, Int64

from models.checkpoints.checkpoints import SHIPPED_WEIGHTS
from models.errors import WeightsError
from models.registry import resolve
from models.taggers.files import metadata_of, name_of, weights_files
from models.types import EncoderSpec, Facet, Paper

# The order of probability columns, and of the codes that snapshots store.
FACETS = tuple(Facet)
# The code of a sentence without a facet.
NO_FACET = -1

# Kinds of tagger; each is loaded from the path of its weights.
TAGGERS: Mapping[str, str] = MappingProxyType({"sequence": "models.taggers.sequence:SequenceTagger"})

# The one metadata entry of a weights file, in JSON (safetensors writes several in an order that changes).
METADATA = "facets"
# The tagger that reads only the text and so fits any encoder.
_SURFACE = "facets-surface"


@dataclass(frozen=True, slots=True)
class TaggerSpec:
    """The properties that a snapshot stores of the tagger that gave its sentences their facets.

    ``fingerprint`` is the SHA-256 (hex) of its weights; ``encoder`` is the fingerprint of the encoder whose
    hidden ``layers`` it reads, or ``None`` (and no layers) if it reads only the text.
    """

    name: str
    fingerprint: str
    encoder: str | None
    layers: tuple[int, ...]


@runtime_checkable
class FacetTagger(Protocol):
    """A classifier of the facets of sentences in abstracts; safe to call from several threads."""

    @property
    def spec(self) -> TaggerSpec:
        """The properties of this tagger that a snapshot stores; its ``layers`` are those ``tag`` requires."""
        ...

    def tag(
        self, papers: Sequence[Paper], states: Sequence[Float32[np.ndarray, "n_states _ dim"]]
    ) -> list[Float32[np.ndarray, "_ 5"]]:
        """Return the probabilities of FACETS for every sentence of every paper, in order; rows sum to 1.

        ``states`` holds, for each paper, its ``EncodedPaper.layers`` for ``spec.layers`` and then its
        ``openings``; it is empty if ``spec.layers`` is empty. Sentences beyond the encoder's token limit
        (n_kept <= n_sentence) get a row too.
        """
        ...


def load_tagger(encoder: EncoderSpec, *, weights: Path = SHIPPED_WEIGHTS) -> FacetTagger:
    """Return the tagger trained on the hidden layers of ``encoder``, or else the one that fits any encoder.

    Both are searched in the encoder's own folder, then in ``weights``. Raises WeightsError if they are
    missing or cannot be read.
    """
    trained = weights_files("facets-*.safetensors*", encoder.name, weights)
    made_for = [path for path in trained if read_metadata(path)["encoder"] == encoder.fingerprint]
    fits_all = [path for path in trained if name_of(path) == _SURFACE]
    return read_tagger([*made_for, *fits_all, weights / f"{_SURFACE}.safetensors"][0])


def read_tagger(path: Path) -> FacetTagger:
    """Return the tagger of a weights file; raises WeightsError, or UnknownNameError for an unknown kind."""
    return cast(FacetTagger, resolve(TAGGERS, read_metadata(path)["kind"], "kind of facet tagger")(path))


def matching_facets(facet: Facet) -> frozenset[Facet]:
    """Return the labels that match a search for ``facet``: a stated aim is background too (semantics 3.5)."""
    return frozenset({facet, Facet.OBJECTIVE} if facet is Facet.BACKGROUND else {facet})


def facet_codes(probabilities: Float32[np.ndarray, "n_sentence 5"]) -> Int64[np.ndarray, " n_sentence"]:
    """Return the most probable facet of each sentence of an abstract, as a position in FACETS.

    A stated objective counts as background in every search. So if no sentence has either facet, a sentence
    gets the likelier of the two if their probabilities together exceed each of the others: "we introduce",
    between objective and method, is then the background of an abstract that has no other.
    """
    codes: Int64[np.ndarray, " n_sentence"] = probabilities.argmax(axis=1)
    aims = [FACETS.index(Facet.BACKGROUND), FACETS.index(Facet.OBJECTIVE)]
    if not any(code in aims for code in codes.tolist()):
        others = np.delete(probabilities, aims, axis=1)
        together = probabilities[:, aims].sum(axis=1) > others.max(axis=1)
        codes[together] = np.array(aims)[probabilities[together][:, aims].argmax(axis=1)]
    return codes


def with_facets(paper: Paper, probabilities: Float32[np.ndarray, "n_sentence 5"]) -> Paper:
    """Return ``paper`` with the facets of ``facet_codes`` on sentences without one; given facets stay."""
    sentences = tuple(
        sentence if sentence.facet is not None else replace(sentence, facet=FACETS[code])
        for sentence, code in zip(paper.sentences, facet_codes(probabilities), strict=True)
    )
    return replace(paper, sentences=sentences)


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the metadata of a weights file: ``kind`` (a name in TAGGERS), ``encoder`` and more.

    Raises WeightsError if it is not that of a tagger.
    """
    if not path.is_file():
        raise WeightsError(f"{path}: no such file of facet weights; train them with: akin train facets.")
    try:
        metadata = json.loads(metadata_of(path)[METADATA])
    except (OSError, EOFError, AttributeError, KeyError, ValueError) as error:
        raise WeightsError(
            f"{path} does not hold the weights of a facet tagger ({error}); train them with: akin train "
            "facets."
        ) from error
    if not isinstance(metadata, dict) or not {"kind", "encoder"} <= metadata.keys():
        raise WeightsError(f"{path} does not name the kind of the tagger; train it again: akin train facets.")
    return metadata
