"""Computes the vectors, facets and functions of papers in one forward pass of the encoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from models.encoder import Encoder, layer_states, load_encoder
from models.errors import EncoderError
from models.facets import FacetTagger, TaggerSpec, load_tagger, read_tagger, with_facets
from models.functions import FunctionEncoder, FunctionSpec, TrainedFunctionEncoder, load_function_encoder
from models.types import EncodedPaper, Paper, Precision


@dataclass(frozen=True, slots=True)
class AnnotatedPaper:
    """A paper with all its facets, its vectors, and the probabilities of its facets.

    ``probabilities`` are those of the tagger, in the order of FACETS, also for sentences that came with a
    facet. ``functions`` are unit vectors of the function of each kept sentence, whatever its topic; ``None``
    without a function encoder.
    """

    paper: Paper
    encoded: EncodedPaper
    probabilities: Float32[np.ndarray, "n_sentence 5"]
    functions: Float32[np.ndarray, "n_kept dim_functions"] | None


class Annotator:
    """An encoder and the models that read its hidden layers; safe to call from several threads.

    Raises EncoderError for models that were trained on layers of another encoder.
    """

    def __init__(
        self, encoder: Encoder, *, tagger: FacetTagger, functions: FunctionEncoder | None = None
    ) -> None:
        self.encoder = encoder
        self.tagger = tagger
        self.functions = functions
        specs = [tagger.spec, *([functions.spec] if functions else ())]
        for spec in specs:
            _expect_encoder(spec, encoder)
        # Each layer is requested once, even if both models read it.
        self._layers = tuple(sorted({layer for spec in specs for layer in spec.layers}))

    @property
    def function_spec(self) -> FunctionSpec | None:
        """The properties of the function encoder that a snapshot stores, or ``None`` without one."""
        return None if self.functions is None else self.functions.spec

    def annotate(self, papers: Sequence[Paper]) -> list[AnnotatedPaper]:
        """Encode and tag ``papers``, in order."""
        encoded = self.encoder.encode(papers, layers=self._layers)
        probabilities = self.tagger.tag(papers, self._pick(encoded, self.tagger.spec.layers))
        functions: list[Float32[np.ndarray, "n_kept dim_functions"] | None] = [None] * len(papers)
        if self.functions is not None:
            functions = [
                self.functions.vectors(states[: len(self.functions.spec.layers)])
                for states in self._pick(encoded, self.functions.spec.layers)
            ]
        return [
            AnnotatedPaper(with_facets(paper, own), vectors, own, of_functions)
            for paper, vectors, own, of_functions in zip(
                papers, encoded, probabilities, functions, strict=True
            )
        ]

    def _pick(
        self, encoded: Sequence[EncodedPaper], layers: Sequence[int]
    ) -> list[Float32[np.ndarray, "n_states _ dim"]]:
        """Return the states of each paper in ``layers``, or an empty list if there are no layers."""
        places = [self._layers.index(layer) for layer in layers]
        return [layer_states(paper, places) for paper in encoded] if places else []


def _expect_encoder(spec: TaggerSpec | FunctionSpec, encoder: Encoder) -> None:
    if spec.encoder is not None and spec.encoder != encoder.spec.fingerprint:
        raise EncoderError(
            f"{spec.name!r} reads hidden layers of the encoder {spec.encoder[:12]}, not of "
            f"{encoder.spec.name!r} ({encoder.spec.fingerprint[:12]}); use a tagger and an encoder that "
            "belong together."
        )


def load_annotator(
    name: str = "minilm",
    *,
    device: str = "auto",
    precision: Precision = Precision.FLOAT32,
    batch_tokens: int | None = None,
    tagger: Path | None = None,
    functions: Path | None = None,
) -> Annotator:
    """Load the encoder ``name`` (as in ``load_encoder``) with the shipped models that fit it.

    ``tagger`` and ``functions`` are weights to use instead of the shipped ones. Raises UnknownNameError,
    WeightsError, EncoderError, MissingPackageError or DeviceFullError.
    """
    encoder = load_encoder(name, device=device, precision=precision, batch_tokens=batch_tokens)
    return Annotator(
        encoder,
        tagger=load_tagger(encoder.spec) if tagger is None else read_tagger(tagger),
        functions=(
            load_function_encoder(encoder.spec)
            if functions is None
            else TrainedFunctionEncoder(functions, encoder.spec)
        ),
    )
