"""The tagger seam: papers in, facet probabilities of their sentences out; ``load_tagger`` gives one."""

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

# Kinds of tagger; each is built from the path of its weights.
TAGGERS: Mapping[str, str] = MappingProxyType({"sequence": "models.taggers.sequence:SequenceTagger"})

# The one metadata entry of a file of weights (safetensors writes several in an order that changes), in JSON.
METADATA = "facets"
# Reads the text alone, and so fits any encoder.
_SURFACE = "facets-surface"


@dataclass(frozen=True, slots=True)
class TaggerSpec:
    """What a snapshot remembers of the tagger that gave its sentences their facets.

    ``fingerprint`` is the SHA-256 (hex) of its weights; ``encoder`` that of the encoder whose hidden
    ``layers`` it reads, ``None`` (and no layers) for one that reads the text alone.
    """

    name: str
    fingerprint: str
    encoder: str | None
    layers: tuple[int, ...]


@runtime_checkable
class FacetTagger(Protocol):
    """Says what each sentence does in its abstract; safe to call from several threads."""

    @property
    def spec(self) -> TaggerSpec:
        """What a snapshot remembers of this tagger; its ``layers`` are those ``tag`` wants."""
        ...

    def tag(
        self, papers: Sequence[Paper], states: Sequence[Float32[np.ndarray, "n_states _ dim"]]
    ) -> list[Float32[np.ndarray, "_ 5"]]:
        """The probabilities of FACETS for every sentence of every paper, in order; rows sum to 1.

        ``states`` holds, for each paper, its ``EncodedPaper.layers`` for ``spec.layers`` and then its
        ``openings``; it is empty where ``spec.layers`` is. Sentences past the encoder's token limit
        (n_kept <= n_sentence) get a row too.
        """
        ...


def load_tagger(encoder: EncoderSpec, *, weights: Path = SHIPPED_WEIGHTS) -> FacetTagger:
    """The tagger trained on the hidden layers of ``encoder``, else the one that fits any encoder.

    They are in the encoder's own folder, or in ``weights``. Raises WeightsError where they are missing or
    cannot be read.
    """
    trained = weights_files("facets-*.safetensors*", encoder.name, weights)
    made_for = [path for path in trained if read_metadata(path)["encoder"] == encoder.fingerprint]
    fits_all = [path for path in trained if name_of(path) == _SURFACE]
    return read_tagger([*made_for, *fits_all, weights / f"{_SURFACE}.safetensors"][0])


def read_tagger(path: Path) -> FacetTagger:
    """The tagger of a file of weights; raises WeightsError, or UnknownNameError for a kind not known here."""
    return cast(FacetTagger, resolve(TAGGERS, read_metadata(path)["kind"], "kind of facet tagger")(path))


def counted_as(facet: Facet) -> frozenset[Facet]:
    """The labels that count where ``facet`` is asked for: a stated aim is background too (semantics 3.5)."""
    return frozenset({facet, Facet.OBJECTIVE} if facet is Facet.BACKGROUND else {facet})


def facet_codes(probabilities: Float32[np.ndarray, "n_sentence 5"]) -> Int64[np.ndarray, " n_sentence"]:
    """The facets of an abstract's sentences, as positions in FACETS: for each its most probable one.

    A stated objective counts as background in every search. So where no sentence has either, one whose two
    probabilities together exceed each of the others gets the likelier of the two: "we introduce", torn
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
    """``paper``, each sentence without a facet given that of ``facet_codes``; given facets stay."""
    sentences = tuple(
        sentence if sentence.facet is not None else replace(sentence, facet=FACETS[code])
        for sentence, code in zip(paper.sentences, facet_codes(probabilities), strict=True)
    )
    return replace(paper, sentences=sentences)


def read_metadata(path: Path) -> dict[str, Any]:
    """What a file of weights says of itself: ``kind`` (a name in TAGGERS), ``encoder`` and more.

    Raises WeightsError where it is no tagger's.
    """
    if not path.is_file():
        raise WeightsError(f"{path}: no such file of facet weights; train them with: akin train facets.")
    try:
        told = json.loads(metadata_of(path)[METADATA])
    except (OSError, EOFError, AttributeError, KeyError, ValueError) as error:
        raise WeightsError(
            f"{path} does not hold the weights of a facet tagger ({error}); train them with: akin train "
            "facets."
        ) from error
    if not isinstance(told, dict) or not {"kind", "encoder"} <= told.keys():
        raise WeightsError(f"{path} does not name the kind of the tagger; train it again: akin train facets.")
    return told
