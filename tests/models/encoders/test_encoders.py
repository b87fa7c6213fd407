"""Encoders against a plain re-computation and ASPIRE's own vectors; their contract is in tests/contracts."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel
from transformers.utils import logging as transformers_logging

from models.checkpoints.checkpoints import DocumentPooling, Pooling, locate_checkpoint, write_pooling
from models.encoder import load_encoder
from models.errors import EncoderError
from models.types import Precision, Unit
from tests.support.examples.models import aspire_vectors
from tests.support.examples.models.tiny_bert import (
    PAPERS,
    PlainEncoder,
    paper,
    text,
    write_frozen_bert,
    write_tiny_bert,
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Return the folder of a tiny random BERT."""
    return write_tiny_bert(tmp_path_factory.mktemp("checkpoints") / "tiny")


# A program that encodes, and whose fork encodes too; a fork that waits for its parent's threads is killed.
FORKING = """
import os, signal
from models.encoder import load_encoder
from models.types import Paper, Sentence

text = "We fit a graph network to gauges. " * 9
papers = [Paper("a", "A", text, (Sentence(text, 0, len(text)),))] * 9
encoder = load_encoder("minilm", device="cpu")
expected = encoder.encode(papers)[0].sentences
child = os.fork()
if not child:
    signal.alarm(30)
    same = abs(encoder.encode(papers)[0].sentences - expected).max() < 1e-5
    os._exit(not same)
raise SystemExit(os.waitpid(child, 0)[1])
"""


def copy_of(folder, target, **changed):
    """Return a copy of a checkpoint folder without the files given as ``None``."""
    target.mkdir()
    for path in folder.iterdir():
        if changed.get(path.name.replace(".", "_"), b"") is not None:
            (target / path.name).write_bytes(path.read_bytes())
    return target


def with_layer_mix(folder, target, logits):
    """Return a copy of a checkpoint folder as a document encoder with a learned layer mix."""
    copy_of(folder, target)
    tensors = load_file(folder / "model.safetensors")
    tensors["bert_layer_weights.weight"] = torch.tensor([logits])
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    write_pooling(target, Pooling(kind="document"))
    return target


@pytest.mark.parametrize("name", PAPERS)
def test_contextual_equals_a_plain_recomputation(tiny, name):
    """Sentence and CLS vectors equal the plain re-computation to 1e-5, with the same dropped count."""
    sentences, cls, _, dropped = PlainEncoder(tiny).encode(PAPERS[name])
    (encoded,) = load_encoder(str(tiny), device="cpu").encode([PAPERS[name]])
    assert encoded.sentences.shape == sentences.shape
    np.testing.assert_allclose(encoded.sentences, sentences, atol=1e-5)
    np.testing.assert_allclose(encoded.document, cls, atol=1e-5)
    assert encoded.dropped_sentences == dropped


def test_the_token_limit_is_reached_by_these_papers(tiny):
    """The example papers cut a sentence, drop later ones, and keep the abstract under a long title."""
    encoder = load_encoder(str(tiny), device="cpu")
    encoded = dict(zip(PAPERS, encoder.encode(list(PAPERS.values())), strict=True))
    kept = {name: len(own.sentences) for name, own in encoded.items()}
    assert (kept["cut in a sentence"], encoded["cut in a sentence"].dropped_sentences) == (5, 2)
    assert (kept["exactly full"], encoded["exactly full"].dropped_sentences) == (4, 1)
    assert (kept["long title"], encoded["long title"].dropped_sentences) == (4, 1)


def test_contextual_gives_what_aspires_own_code_computes(tmp_path):
    """Unnormalised sentence and CLS vectors and kept counts equal those of ASPIRE's public code to 1e-5."""
    encoder = load_encoder(str(write_frozen_bert(tmp_path / "frozen")), device="cpu")
    papers = aspire_vectors.PAPERS
    for (name, given), own in zip(papers.items(), encoder.encode(list(papers.values())), strict=True):
        sentences, cls = aspire_vectors.of(name)
        assert own.sentences.shape == sentences.shape
        assert own.dropped_sentences == len(given.sentences) - len(sentences)
        np.testing.assert_allclose(own.sentences, sentences, atol=1e-5)
        np.testing.assert_allclose(own.document, cls, atol=1e-5)


def test_document_encoder_reads_title_sep_abstract(tiny, tmp_path):
    """SPECTER's input is read, [CLS] title [SEP] abstract [SEP] cut at 512, and the last CLS returned."""
    folder = copy_of(tiny, tmp_path / "specter")
    write_pooling(folder, Pooling(kind="document"))
    plain = PlainEncoder(tiny)
    encoder = load_encoder(str(folder), device="cpu")
    assert encoder.spec.unit is Unit.DOCUMENT
    names = ["plain", "one long sentence", "cut in a sentence", "empty title"]
    for name, own in zip(names, encoder.encode([PAPERS[name] for name in names]), strict=True):
        tokens = [*plain.wordpieces(PAPERS[name].title), "[SEP]", *plain.wordpieces(PAPERS[name].abstract)]
        expected = plain.hidden_states(tokens[:510])[-1][0]
        np.testing.assert_allclose(own.document, expected, atol=1e-5)
        np.testing.assert_array_equal(own.sentences, own.document[None])


def test_document_encoder_mixes_layers_as_learned(tiny, tmp_path):
    """ASPIRE's bi-encoders give CLS of the softmax-weighted sum of all hidden states, embeddings included."""
    logits = [0.3, -1.2, 0.9]
    folder = with_layer_mix(tiny, tmp_path / "cocite", logits)
    plain = PlainEncoder(tiny)
    tokens = [*plain.wordpieces("Graph transport"), "[SEP]", *plain.wordpieces(PAPERS["plain"].abstract)]
    shares = [np.exp(logit) / sum(np.exp(logits)) for logit in logits]
    states = plain.hidden_states(tokens)
    expected = sum(share * layer[0] for share, layer in zip(shares, states, strict=True))
    (encoded,) = load_encoder(str(folder), device="cpu").encode([PAPERS["plain"]])
    np.testing.assert_allclose(encoded.document, expected, atol=1e-5)


def test_a_folder_may_ask_for_unit_vectors_and_a_mean(tiny, tmp_path):
    """akin.json can set unit norm and the mean over all tokens as document vector."""
    folder = copy_of(tiny, tmp_path / "mean")
    write_pooling(folder, Pooling(normalise=True, document=DocumentPooling.MEAN))
    sentences, _, mean, _ = PlainEncoder(tiny).encode(PAPERS["random"])
    (encoded,) = load_encoder(str(folder), device="cpu").encode([PAPERS["random"]])
    norms = np.linalg.norm(sentences, axis=1, keepdims=True)
    np.testing.assert_allclose(encoded.sentences, sentences / norms, atol=1e-5)
    np.testing.assert_allclose(encoded.document, mean / np.linalg.norm(mean), atol=1e-5)


@pytest.mark.parametrize("kind", ["contextual", "document"])
@pytest.mark.parametrize(("value", "normalise"), [(np.nan, False), (np.inf, True), (1e30, True), (0.0, True)])
def test_vectors_that_mean_nothing_are_refused(tiny, tmp_path, kind, value, normalise):
    """A vector that is not finite, or that cannot be normalised, raises an error instead of leaving."""
    folder = copy_of(tiny, tmp_path / "damaged")
    write_pooling(folder, Pooling(kind=kind, normalise=normalise))
    encoder = load_encoder(str(folder), device="cpu")
    (model,) = encoder._transformer._models.values()
    torch.nn.init.zeros_(model.encoder.layer[1].output.LayerNorm.weight)
    torch.nn.init.constant_(model.encoder.layer[1].output.LayerNorm.bias, value)
    with pytest.raises(EncoderError, match="damaged' gave a vector that is not finite or cannot be normal"):
        encoder.encode(list(PAPERS.values()))


def test_vocab_txt_alone_gives_the_same_vectors(tiny, tmp_path):
    """A folder without tokenizer.json is read from vocab.txt, lower-cased as BERT does."""
    folder = copy_of(tiny, tmp_path / "vocab", tokenizer_json=None)
    for name in ("sep in title", "random"):
        expected = load_encoder(str(tiny), device="cpu").encode([PAPERS[name]])[0].sentences
        actual = load_encoder(str(folder), device="cpu").encode([PAPERS[name]])[0].sentences
        np.testing.assert_array_equal(actual, expected)


def test_few_position_embeddings_mean_fewer_tokens(tmp_path):
    """A model with 40 positions reads 38 WordPieces and drops the rest, as in the plain re-computation."""
    folder = write_tiny_bert(tmp_path / "short", max_position_embeddings=40)
    given = paper("Graph", text(20), text(30, seed=1), text(9, seed=2))
    sentences, _, _, dropped = PlainEncoder(folder, max_tokens=38).encode(given)
    (encoded,) = load_encoder(str(folder), device="cpu").encode([given])
    np.testing.assert_allclose(encoded.sentences, sentences, atol=1e-5)
    assert encoded.dropped_sentences == dropped == 1


def test_a_sentence_without_wordpieces_keeps_its_place(tiny):
    """A sentence of control characters gets a non-zero row and shifts no other."""
    (encoded,) = load_encoder(str(tiny), device="cpu").encode([paper("Graph", "We show.", "\x00", "A cell.")])
    assert encoded.sentences.shape == (3, 32)
    assert np.linalg.norm(encoded.sentences, axis=1).min() > 0.1


def test_an_absent_device_is_refused(tiny):
    """A device that torch does not know or that is missing is refused."""
    with pytest.raises(EncoderError, match="expected auto, cpu"):
        load_encoder(str(tiny), device="abacus")
    if not torch.cuda.is_available():
        with pytest.raises(EncoderError, match="no usable CUDA"):
            load_encoder(str(tiny), device="cuda")


def test_bfloat16_stays_close_and_keeps_the_fingerprint(tiny):
    """bfloat16 changes vectors only by rounding and keeps the spec, so precisions can be mixed."""
    exact = load_encoder(str(tiny), device="cpu")
    rough = load_encoder(str(tiny), device="cpu", precision=Precision.BFLOAT16)
    ours, theirs = (encoder.encode([PAPERS["random"]])[0].sentences for encoder in (exact, rough))
    assert theirs.dtype == np.float32
    cosines = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    assert cosines.min() > 0.999
    assert not np.array_equal(ours, theirs)
    assert rough.spec == exact.spec


def test_loading_and_encoding_print_nothing(tiny, capfd):
    """Loading and encoding print no progress bar, report or warning."""
    load_encoder(str(tiny), device="cpu").encode([PAPERS["plain"]])
    assert capfd.readouterr() == ("", "")


def test_loading_in_threads_leaves_transformers_as_it_was(tiny, monkeypatch):
    """Loading in several threads at once leaves the verbosity of transformers as it was."""
    before, load = transformers_logging.get_verbosity(), AutoModel.from_pretrained
    first = threading.Thread(target=load_encoder, args=(str(tiny),), kwargs={"device": "cpu"})
    first_loads, second_loads = threading.Event(), threading.Event()

    def meeting(*given, **named):
        if threading.current_thread() is first:
            first_loads.set()
            second_loads.wait(0.5)  # in vain if loads wait for each other
        else:
            second_loads.set()
            first.join(60)
        return load(*given, **named)

    monkeypatch.setattr(AutoModel, "from_pretrained", meeting)
    first.start()
    assert first_loads.wait(60)
    load_encoder(str(tiny), device="cpu")
    assert transformers_logging.get_verbosity() == before


def test_minilm_equals_a_plain_recomputation(minilm):
    """Vectors are unit sentence means; the document is the unit mean over all tokens (CLS is untrained)."""
    given = paper(
        "Optimal transport aligns scientific abstracts",
        "We embed each sentence in the context of its abstract.",
        "Multi-vector models outperform SPECTER (Cohan et al., 2020) by 7.0 points.",
        "Electroencephalography datasets are unaffected.",
    )
    sentences, _, mean, _ = PlainEncoder(locate_checkpoint("minilm").folder).encode(given)
    (encoded,) = minilm.encode([given])
    norms = np.linalg.norm(sentences, axis=1, keepdims=True)
    np.testing.assert_allclose(encoded.sentences, sentences / norms, atol=1e-5)
    np.testing.assert_allclose(encoded.document, mean / np.linalg.norm(mean), atol=1e-5)
    assert (minilm.spec.name, minilm.spec.dim, minilm.spec.normalised) == ("minilm", 384, True)


@pytest.mark.parametrize("name", PAPERS)
def test_layers_are_those_of_a_plain_recomputation(tiny, name):
    """Requested layers of sentences and of their openings equal the plain re-computation."""
    plain = PlainEncoder(tiny)
    tokens, positions = plain.segments(PAPERS[name])
    states = plain.hidden_states(tokens)
    encoder = load_encoder(str(tiny), device="cpu")
    (encoded,) = encoder.encode([PAPERS[name]], layers=(2, 0, 1))
    expected = [[sum(states[layer][i] for i in own) / len(own) for own in positions] for layer in (2, 0, 1)]
    np.testing.assert_allclose(encoded.layers, expected, atol=1e-5)
    openings = [own[:4] for own in positions]
    expected = [[sum(states[layer][i] for i in own) / len(own) for own in openings] for layer in (2, 0, 1)]
    np.testing.assert_allclose(encoded.openings, expected, atol=1e-5)
    without = encoder.encode([PAPERS[name]])[0].sentences
    np.testing.assert_allclose(encoded.sentences, without, atol=1e-6)


def test_layers_keep_their_norms(minilm):
    """An encoder with normalised vectors gives hidden layers unnormalised."""
    (encoded,) = minilm.encode([PAPERS["plain"]], layers=(6,))
    norms = np.linalg.norm(encoded.layers[0], axis=1, keepdims=True)
    assert abs(norms - 1).min() > 0.1
    np.testing.assert_allclose(encoded.layers[0] / norms, encoded.sentences, atol=1e-5)


def test_layers_that_are_not_there_are_refused(tiny):
    """A layer past the last one or a negative number is refused."""
    with pytest.raises(EncoderError, match=r"\[3\] were requested; .*tiny' has layers 0 .* to 2"):
        load_encoder(str(tiny), device="cpu").encode([PAPERS["plain"]], layers=(3,))
    with pytest.raises(EncoderError, match=r"\[-1\]"):
        load_encoder(str(tiny), device="cpu").encode([PAPERS["plain"]], layers=(-1,))


def test_a_forked_process_encodes():
    """A fork of a process that has used an encoder encodes the same, though it has no threads of torch."""
    environ = {**os.environ, "OMP_NUM_THREADS": "2"}
    assert 0 == subprocess.run([sys.executable, "-c", FORKING], env=environ, check=False).returncode
