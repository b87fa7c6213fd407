"""Batches of papers: they change no vector, and a machine short of memory loses no paper."""

from contextvars import copy_context
from pkgutil import resolve_name

import numpy as np
import pytest
import torch

from models.encoder import load_encoder
from models.encoders.wordpieces import plan_batches
from models.errors import DeadlineError, EncoderError
from models.interruption import set_interruption
from tests.support.examples.models.tiny_bert import PAPERS, paper, write_tiny_bert

# How torch fails for want of memory: on a GPU with a class of its own, or with words, as on a CPU.
NO_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
        "to allocate 2147483648 bytes. Error code 12 (Cannot allocate memory)"
    ),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA error: out of memory"),
]
FORWARD = "models.encoders.transformer.Transformer.forward"  # by name: loading it takes seconds
no_memory = pytest.mark.parametrize("error", NO_MEMORY, ids=["gpu", "cpu", "cublas", "cuda"])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Folder of a tiny random BERT."""
    return write_tiny_bert(tmp_path_factory.mktemp("checkpoints") / "tiny")


@pytest.mark.parametrize("batch_tokens", [1, 700, 100_000])
def test_batches_change_nothing(tiny, batch_tokens):
    """Any token budget gives every paper, in order, the vectors it has alone, within 1e-5."""
    singles = load_encoder(str(tiny), device="cpu")
    papers = list(PAPERS.values())
    batched = load_encoder(str(tiny), device="cpu", batch_tokens=batch_tokens).encode(papers)
    for given, own in zip(papers, batched, strict=True):
        (alone,) = singles.encode([given])
        np.testing.assert_allclose(own.sentences, alone.sentences, atol=1e-5)
        np.testing.assert_allclose(own.document, alone.document, atol=1e-5)


def test_batches_keep_the_budget_and_hold_like_lengths():
    """Each sequence is in one batch, longest first; only one too long by itself exceeds the budget."""
    batches = plan_batches([5, 90, 30, 31, 5, 200], batch_tokens=100)
    assert batches == [[5], [1], [3, 2, 0], [4]]


@no_memory
def test_out_of_memory_halves_the_batch_and_then_uses_the_cpu(tiny, monkeypatch, error):
    """A device without room loses no paper; a paper that does not fit alone is encoded on the CPU."""
    papers = list(PAPERS.values())
    expected = load_encoder(str(tiny), device="cpu").encode(papers)
    calls = []
    forward = resolve_name(FORWARD)

    def scarce(self, device, sequences, windows, layers):
        calls.append((str(device), len(sequences)))
        if str(device) == "cpu:0" and len(sequences) * max(map(len, sequences)) > 400:
            raise error
        return forward(self, device, sequences, windows, layers)

    monkeypatch.setattr(FORWARD, scarce)
    # "cpu:0" is another device than "cpu" to torch, and there on every machine.
    encoder = load_encoder(str(tiny), device="cpu:0", batch_tokens=100_000)
    for own, right in zip(encoder.encode(papers), expected, strict=True):
        np.testing.assert_allclose(own.sentences, right.sentences, atol=1e-5)
    assert calls[:4] == [("cpu:0", 10), ("cpu:0", 5), ("cpu:0", 2), ("cpu:0", 1)]
    assert {device for device, _ in calls[4:]} == {"cpu"}
    calls.clear()
    encoder.encode(papers[:1])
    assert calls == [("cpu:0", 1)]


def failing(monkeypatch, error):
    """Make every forward pass fail."""

    def full(self, device, sequences, windows, layers):
        raise error

    monkeypatch.setattr(FORWARD, full)


@no_memory
def test_a_paper_too_large_for_the_cpu_is_an_encoder_error(tiny, monkeypatch, error):
    """When even one paper on the CPU does not fit, the error says so instead of looping."""
    failing(monkeypatch, error)
    with pytest.raises(EncoderError, match="does not fit in memory"):
        load_encoder(str(tiny), device="cpu").encode([PAPERS["plain"]])


def test_an_allocation_that_torch_refuses_is_recognised(tiny, monkeypatch):
    """What this version of torch raises on a CPU without memory is what the words above say."""

    def full(self, device, sequences, windows, layers):
        torch.empty(2**60, dtype=torch.uint8)

    monkeypatch.setattr(FORWARD, full)
    with pytest.raises(EncoderError, match="does not fit in memory"):
        load_encoder(str(tiny), device="cpu").encode([PAPERS["plain"]])


@pytest.mark.parametrize("kind", [RuntimeError, ValueError, IndexError])
def test_another_failure_is_not_taken_for_want_of_memory(tiny, monkeypatch, kind):
    """A mistake in the model's arithmetic is an EncoderError that names it, not tried in smaller batches."""
    failing(monkeypatch, kind("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(EncoderError, match=r"failed to encode \(mat1 and mat2"):
        load_encoder(str(tiny), device="cpu").encode([PAPERS["plain"]])


def test_a_text_that_cannot_be_tokenised_is_an_encoder_error(tiny):
    """What the tokenizer refuses, such as half of a surrogate pair, is named as that."""
    with pytest.raises(EncoderError, match="The texts of 1 paper cannot be tokenised"):
        load_encoder(str(tiny), device="cpu").encode([paper("Graph \ud800", "We show a result.")])


def test_a_pass_ends_between_two_layers_once_nobody_waits(tiny):
    """What interrupts is asked before each layer, and ends the pass where it raises."""
    encoder, n_asked = load_encoder(str(tiny), device="cpu"), 0

    def interrupt() -> None:
        nonlocal n_asked
        n_asked += 1
        if n_asked == 2:
            raise DeadlineError("the client has gone")

    def encode() -> None:
        set_interruption(interrupt)
        encoder.encode([next(iter(PAPERS.values()))])

    with pytest.raises(DeadlineError):
        copy_context().run(encode)
    assert 2 == n_asked
    assert 1 == len(encoder.encode([next(iter(PAPERS.values()))]))
