"""The cache of the vectors and facets of pasted papers."""

import pkgutil
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from safetensors.numpy import load, save

from models.annotator import AnnotatedPaper, Annotator
from models.encoder import Encoder
from models.facets import with_facets
from models.types import EncodedPaper, EncoderSpec, Paper, Precision, Sentence
from service.cache.digests import digest_of
from service.cache.store import Cache
from service.cache.together import CPU_CHARS, EncoderTogether

_DEVICES: Final = "models.encoders.devices"  # by name, as it imports torch


class CachedEncoder:
    """An encoder that caches encoded papers, except hidden layers.

    Papers encoded together are cached together, since batching changes the last digits of their vectors: so
    the same call gives the same bits, cached or not. ``device`` is the device that the encoder computes on
    and, if it is not float32, the number format.
    """

    def __init__(self, encoder: Encoder, cache: Cache, *, device: str) -> None:
        self._encoder = encoder
        self._cache = cache
        self._device = device

    @property
    def spec(self) -> EncoderSpec:
        """The spec of the wrapped encoder."""
        return self._encoder.spec

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode papers like the wrapped encoder; calls that request hidden layers are not cached."""
        if layers or not papers:
            return self._encoder.encode(papers, layers=layers)
        name = _name("encoded", (self.spec.fingerprint, self._device), papers)
        kept = self._cache.value(name, lambda: _packed([(e, {}) for e in self._encoder.encode(papers)]))
        return [encoded for encoded, _ in _unpacked(kept, len(papers))]


class CachedAnnotator(Annotator):
    """An annotator that caches annotated papers, except hidden layers; together, as CachedEncoder does."""

    def __init__(self, annotator: Annotator, cache: Cache, *, device: str) -> None:
        super().__init__(
            CachedEncoder(annotator.encoder, cache, device=device),
            tagger=annotator.tagger,
            functions=annotator.functions,
        )
        self._annotator = annotator
        self._cache = cache
        self.made_by = (*fingerprints(annotator), device)

    def annotate(self, papers: Sequence[Paper]) -> list[AnnotatedPaper]:
        """Annotate papers like the wrapped annotator."""
        if not papers:
            return []
        kept = self._cache.value(_name("annotated", self.made_by, papers), lambda: self._pack(papers))
        return [
            AnnotatedPaper(
                with_facets(paper, arrays["probabilities"]),
                encoded,
                arrays["probabilities"],
                arrays.get("functions"),
            )
            for paper, (encoded, arrays) in zip(papers, _unpacked(kept, len(papers)), strict=True)
        ]

    def _pack(self, papers: Sequence[Paper]) -> bytes:
        return _packed([(each.encoded, _read_off(each)) for each in self._annotator.annotate(papers)])


def computing_on(device: str, precision: Precision) -> str:
    """Return the type of device and the precision that these settings mean on this machine.

    Never "auto": processes that share a Redis may run on machines that differ in both. Raises EncoderError.
    """
    if (device, precision) == ("cpu", Precision.FLOAT32):
        return device
    resolved = pkgutil.resolve_name(f"{_DEVICES}:resolve_device")(device)
    precision = pkgutil.resolve_name(f"{_DEVICES}:resolve_precision")(precision, resolved)
    return str(resolved.type) if precision is Precision.FLOAT32 else f"{resolved.type} {precision}"


def load_cached(
    load: Callable[[], Annotator], cache: Cache, *, device: str, precision: Precision, together: int = 1
) -> CachedAnnotator:
    """Return the annotator of ``load``, cached; ``device`` and ``precision`` as for ``load_encoder``.

    With ``together``, so many papers that are annotated at the same moment are encoded in one batch.
    """
    annotator = load()
    computed_on = computing_on(device, precision)
    if together > 1:
        most_chars = CPU_CHARS if computed_on.startswith("cpu") else None
        encoder = EncoderTogether(annotator.encoder, most=together, most_chars=most_chars)
        annotator = Annotator(encoder, tagger=annotator.tagger, functions=annotator.functions)
        computed_on += ", together"  # its last digits are not those of texts that are encoded alone
    # Bypasses the cache: a value from Redis would leave the encoder cold for the next paper.
    annotator.annotate([Paper("", "", "Warm.", (Sentence("Warm.", 0, 5),))])
    return CachedAnnotator(annotator, cache, device=computed_on)


def fingerprints(annotator: Annotator) -> tuple[str, ...]:
    """Return the fingerprints that, with the device, decide every bit of an annotator's results.

    The device, which may not be the one in the settings, is included if the annotator is a cached one.
    """
    if isinstance(annotator, CachedAnnotator):
        return annotator.made_by
    functions = annotator.function_spec
    return (
        annotator.encoder.spec.fingerprint,
        annotator.tagger.spec.fingerprint,
        "" if functions is None else functions.fingerprint,
    )


def _read_off(annotated: AnnotatedPaper) -> dict[str, np.ndarray]:
    arrays = {"probabilities": annotated.probabilities}
    return arrays if annotated.functions is None else {**arrays, "functions": annotated.functions}


def _name(kind: str, made_by: tuple[str, ...], papers: Sequence[Paper]) -> str:
    """Return a cache name from the parts of papers that encoders and taggers read: titles and sentences."""
    texts = tuple((paper.title, *(sentence.text for sentence in paper.sentences)) for paper in papers)
    return f"{kind}:{digest_of((made_by, texts)).hex()}"


def _packed(papers: Sequence[tuple[EncodedPaper, dict[str, np.ndarray]]]) -> bytes:
    """Return the arrays as ``number.name`` in the safetensors format, which can hold only arrays."""
    arrays: dict[str, np.ndarray] = {}
    for number, (encoded, others) in enumerate(papers):
        own = {
            "sentences": encoded.sentences,
            "document": encoded.document,
            "dropped": np.array([encoded.dropped_sentences], dtype=np.int64),
            **others,
        }
        arrays |= {f"{number}.{name}": np.ascontiguousarray(array) for name, array in own.items()}
    return save(arrays)


def _unpacked(packed: bytes, n_papers: int) -> list[tuple[EncodedPaper, dict[str, np.ndarray]]]:
    # Copies, since the arrays are views of a value that all callers share.
    papers: list[dict[str, np.ndarray]] = [{} for _ in range(n_papers)]
    for place, array in load(packed).items():
        number, _, name = place.partition(".")
        papers[int(number)][name] = array.copy()
    return [
        (EncodedPaper(own.pop("sentences"), own.pop("document"), int(own.pop("dropped")[0])), own)
        for own in papers
    ]
