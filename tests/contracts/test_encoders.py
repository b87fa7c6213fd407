"""Tests of the contract that every kind of encoder in ENCODERS meets."""

import re

import numpy as np
import pytest

from evaluation.systems.sentence_systems import hidden_layers
from models.checkpoints.checkpoints import Pooling, write_pooling
from models.encoder import ENCODERS, WEIGHTLESS, Encoder, LayeredEncoder, load_encoder
from models.errors import EncoderError
from models.types import Unit
from tests.support.examples.models.tiny_bert import PAPERS, paper, write_tiny_bert


def contract_encoder(kind, tmp_path):
    """Return an encoder of this kind; one with weights is a tiny random BERT with this pooling."""
    if kind in WEIGHTLESS:
        return load_encoder(kind)
    folder = write_tiny_bert(tmp_path / kind)
    write_pooling(folder, Pooling(kind=kind))
    return load_encoder(str(folder), device="cpu")


@pytest.mark.parametrize("kind", ENCODERS)
def test_every_encoder_keeps_the_contract(kind, tmp_path):
    """Shapes, order, determinism, finiteness, fingerprint and norms are right; no papers give no vectors."""
    encoder = contract_encoder(kind, tmp_path)
    spec = encoder.spec
    papers = [*PAPERS.values(), paper("", "...", "\x00")]
    encoded = encoder.encode(papers)
    assert isinstance(encoder, Encoder)
    assert re.fullmatch(r"[0-9a-f]{64}", spec.fingerprint)
    assert encoder.encode([]) == []
    for given, own, again in zip(papers, encoded, encoder.encode(papers), strict=True):
        n_kept = len(given.sentences) - own.dropped_sentences
        assert own.sentences.shape == ((n_kept if spec.unit is Unit.SENTENCE else 1), spec.dim)
        assert own.document.shape == (spec.dim,)
        assert own.sentences.dtype == own.document.dtype == np.float32
        assert np.isfinite(own.sentences).all()
        assert not spec.normalised or np.allclose(np.linalg.norm(own.sentences, axis=1), 1, atol=1e-5)
        np.testing.assert_array_equal(own.sentences, again.sentences)
        np.testing.assert_allclose(encoder.encode([given])[0].sentences, own.sentences, atol=1e-5)
    assert all(own.layers is None for own in encoded)


@pytest.mark.parametrize("kind", ENCODERS)
def test_an_encoder_with_layers_knows_their_number(kind, tmp_path):
    """The last layer equals the unnormalised sentence vectors, and a higher layer is refused."""
    encoder = contract_encoder(kind, tmp_path)
    layers = hidden_layers(encoder)
    assert isinstance(encoder, LayeredEncoder) == bool(layers)
    for last in layers[-1:]:
        (encoded,) = encoder.encode([PAPERS["plain"]], layers=layers)
        assert len(layers) == len(encoded.layers)
        np.testing.assert_allclose(encoded.layers[last], encoded.sentences, atol=1e-5)
        with pytest.raises(EncoderError, match="has layers 0"):
            encoder.encode([PAPERS["plain"]], layers=(last + 1,))


@pytest.mark.parametrize("kind", ENCODERS)
def test_every_encoder_refuses_layers_that_it_does_not_have(kind, tmp_path):
    """The error names the missing layers, and the existing ones or the kind of encoder that has some."""
    encoder = contract_encoder(kind, tmp_path)
    with pytest.raises(EncoderError, match=r"\[99\] were requested.*(has layers 0|a contextual encoder)"):
        encoder.encode([PAPERS["plain"]], layers=(99,))
