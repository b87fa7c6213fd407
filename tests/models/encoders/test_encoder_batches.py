"""Batches of papers: they change no vector, and a lack of memory loses no paper."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pkgutil import resolve_name

import numpy as np
import pytest
import torch

from models.checkpoints.checkpoints import WEIGHTS
from models.encoder import load_encoder
from models.encoders.wordpieces import plan_batches
from models.errors import DeadlineError, EncoderError
from models.interruption import set_interruption
from tests.support.examples.models.tiny_bert import PAPERS, paper, write_tiny_bert

# How torch fails without memory: on a GPU with a special class, or with a message, as on a CPU.
NO_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
        "to allocate 2147483648 bytes. Error code 12 (Cannot allocate memory)"
    ),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA error: out of memory"),
]
FORWARD = "models.encoders.transformer.Transformer.forward"  # by name, because loading it takes seconds
COPY = "models.encoders.transformer.copy_to"
no_memory = pytest.mark.parametrize("error", NO_MEMORY, ids=["gpu", "cpu", "cublas", "cuda"])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Return the folder of a tiny random BERT."""
    return write_tiny_bert(tmp_path_factory.mktemp("checkpoints") / "tiny")


@pytest.mark.parametrize("batch_tokens", [1, 700, 100_000])
def test_batches_change_nothing(tiny, batch_tokens):
    """With any token budget every paper gets, in order, the vectors it has alone, within 1e-5."""
    singles = load_encoder(str(tiny), device="cpu")
    papers = list(PAPERS.values())
    batched = load_encoder(str(tiny), device="cpu", batch_tokens=batch_tokens).encode(papers)
    for given, own in zip(papers, batched, strict=True):
        (alone,) = singles.encode([given])
        np.testing.assert_allclose(own.sentences, alone.sentences, atol=1e-5)
        np.testing.assert_allclose(own.document, alone.document, atol=1e-5)


def test_batches_keep_the_budget_and_hold_like_lengths():
    """Each sequence is in one batch, longest first; only a single too long one exceeds the budget."""
    batches = plan_batches([5, 90, 30, 31, 5, 200], batch_tokens=100)
    assert batches == [[5], [1], [3, 2, 0], [4]]


@no_memory
def test_out_of_memory_halves_the_batch_and_then_uses_the_cpu(tiny, monkeypatch, error):
    """Without memory, batches are halved, and a paper that does not fit alone is encoded on the CPU."""
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
    # For torch, "cpu:0" is another device than "cpu", and every machine has it.
    encoder = load_encoder(str(tiny), device="cpu:0", batch_tokens=100_000)
    for own, right in zip(encoder.encode(papers), expected, strict=True):
        np.testing.assert_allclose(own.sentences, right.sentences, atol=1e-5)
    assert calls[:4] == [("cpu:0", 10), ("cpu:0", 5), ("cpu:0", 2), ("cpu:0", 1)]
    assert {device for device, _ in calls[4:]} == {"cpu"}
    calls.clear()
    encoder.encode(papers[:1])
    assert calls == [("cpu:0", 1)]


def test_the_cpu_takes_over_the_loaded_weights(tmp_path, monkeypatch):
    """If threads fall back to the CPU, they share one copy of the loaded weights and read no file again."""
    folder = write_tiny_bert(tmp_path / "tiny")
    expected = load_encoder(str(folder), device="cpu").encode([PAPERS["plain"]])[0]
    encoder, forward = load_encoder(str(folder), device="cpu:0"), resolve_name(FORWARD)
    copy, copied, together = resolve_name(COPY), [], threading.Barrier(2)

    def scarce(self, device, sequences, windows, layers):
        if str(device) == "cpu:0":
            together.wait(60)
            raise NO_MEMORY[0]
        return forward(self, device, sequences, windows, layers)

    def slow(model, device):
        copied.append(str(device))
        time.sleep(0.2)  # for the other thread to come
        return copy(model, device)

    monkeypatch.setattr(FORWARD, scarce)
    monkeypatch.setattr(COPY, slow)
    write_tiny_bert(tmp_path / "other", seed=1)
    (tmp_path / "other" / WEIGHTS).replace(folder / WEIGHTS)
    with ThreadPoolExecutor(2) as threads:
        results = [*threads.map(lambda _: encoder.encode([PAPERS["plain"]])[0], range(2))]
    for own in results:
        np.testing.assert_allclose(own.sentences, expected.sentences, atol=1e-5)
    assert copied == ["cpu"]


def failing(monkeypatch, error):
    """Make every forward pass fail."""

    def full(self, device, sequences, windows, layers):
        raise error

    monkeypatch.setattr(FORWARD, full)


@no_memory
def test_a_paper_too_large_for_the_cpu_is_an_encoder_error(tiny, monkeypatch, error):
    """If a single paper does not fit into memory on the CPU, an EncoderError says so."""
    failing(monkeypatch, error)
    with pytest.raises(EncoderError, match="does not fit in memory"):
        load_encoder(str(tiny), device="cpu").encode([PAPERS["plain"]])


def test_an_allocation_that_torch_refuses_is_recognised(tiny, monkeypatch):
    """A refused allocation of this version of torch on a CPU is recognised as a lack of memory."""

    def full(self, device, sequences, windows, layers):
        torch.empty(2**60, dtype=torch.uint8)

    monkeypatch.setattr(FORWARD, full)
    with pytest.raises(EncoderError, match="does not fit in memory"):
        load_encoder(str(tiny), device="cpu").encode([PAPERS["plain"]])


@pytest.mark.parametrize("kind", [RuntimeError, ValueError, IndexError])
def test_another_failure_is_not_taken_for_want_of_memory(tiny, monkeypatch, kind):
    """An error in the model's arithmetic is an EncoderError with its message, not a lack of memory."""
    failing(monkeypatch, kind("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(EncoderError, match=r"failed to encode \(mat1 and mat2"):
        load_encoder(str(tiny), device="cpu").encode([PAPERS["plain"]])


def test_a_text_that_cannot_be_tokenised_is_an_encoder_error(tiny):
    """A text that the tokenizer refuses, such as a lone surrogate, raises an EncoderError."""
    with pytest.raises(EncoderError, match="The texts of 1 paper cannot be tokenised"):
        load_encoder(str(tiny), device="cpu").encode([paper("Graph \ud800", "We show a result.")])


def test_a_pass_ends_between_two_layers_once_nobody_waits(tiny):
    """The interruption is checked before each layer, and its error ends the pass."""
    encoder, n_checks = load_encoder(str(tiny), device="cpu"), 0

    def interrupt() -> None:
        nonlocal n_checks
        n_checks += 1
        if n_checks == 2:
            raise DeadlineError("the client has gone")

    def encode() -> None:
        set_interruption(interrupt)
        encoder.encode([next(iter(PAPERS.values()))])

    with pytest.raises(DeadlineError):
        copy_context().run(encode)
    assert 2 == n_checks
    assert 1 == len(encoder.encode([next(iter(PAPERS.values()))]))
