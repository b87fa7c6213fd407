"""Papers to packed vectors, in bounded batches."""

from collections.abc import Callable, Sequence

import numpy as np

from models.encoder import Encoder
from models.errors import EncoderError
from models.types import EncodedPaper, PackedVectors, Paper

# Papers handed to the encoder at once: enough for it to sort by length, few enough for a lively progress bar.
_PAPERS_PER_CALL = 128


def embed(
    papers: Sequence[Paper], encoder: Encoder, *, dtype: str, on_progress: Callable[[int], None]
) -> PackedVectors:
    """The vectors of ``papers`` end to end, in order, as ``dtype`` (``float16`` or ``float32``).

    ``on_progress`` gets the number of papers done since its last call. Raises EncoderError when a vector is
    not finite in ``dtype``.
    """
    encoded: list[EncodedPaper] = []
    for start in range(0, len(papers), _PAPERS_PER_CALL):
        batch = papers[start : start + _PAPERS_PER_CALL]
        encoded += encoder.encode(batch)
        on_progress(len(batch))
    offsets = np.zeros(len(papers) + 1, dtype=np.int64)
    np.cumsum([len(paper.sentences) for paper in encoded], out=offsets[1:])
    rows = np.concatenate([paper.sentences for paper in encoded]).astype(dtype)
    if not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        owner = papers[int(np.searchsorted(offsets, bad, side="right")) - 1].id
        raise EncoderError(
            f"Paper {owner!r} got a vector that {dtype} cannot hold; index with --dtype float32, "
            "or check the encoder's weights"
        )
    return PackedVectors(rows, offsets)
