"""The hashing encoder: pinned numbers, and similarity by shared words."""

import numpy as np
import pytest

from models.encoders.hashing import HashingEncoder
from tests.support.examples.models.tiny_bert import paper


def test_hashing_gives_the_pinned_numbers():
    """Vector and fingerprint are the recorded ones, in every process and on every machine."""
    encoder = HashingEncoder()
    (encoded,) = encoder.encode([paper("Graph transport", "We show a result.", "Cell protein.")])
    columns = np.flatnonzero(np.abs(encoded.sentences[0]) > 0.2)
    assert encoder.spec.fingerprint == GOLDEN_FINGERPRINT
    assert dict(zip(columns.tolist(), encoded.sentences[0, columns].tolist(), strict=True)) == pytest.approx(
        GOLDEN_COLUMNS, abs=1e-6
    )


GOLDEN_FINGERPRINT = "d3dbde8c11fa89ba0503697ea19034ea20b39b91210fd5e73ef5317a91ee288b"
GOLDEN_COLUMNS = {1: -0.694586, 19: -0.694586}


def test_hashing_is_nearer_for_more_shared_words():
    """Shared content words count more than stop words, word order counts, and case does not."""
    query, same, reordered, half, unrelated = HashingEncoder().encode(
        [
            paper("", "optimal transport of the sentence vectors"),
            paper("", "Optimal Transport of the Sentence Vectors"),
            paper("", "vectors the sentence transport of optimal"),
            paper("", "optimal transport for supply chains"),
            paper("", "the growth of the cells in the tissue"),
        ]
    )
    near = [float(query.sentences[0] @ other.sentences[0]) for other in (same, reordered, half, unrelated)]
    assert near[0] == pytest.approx(1)
    assert near == sorted(near, reverse=True)
    assert near[3] < 0.2 < near[2] < 0.7 < near[1] < 0.95
