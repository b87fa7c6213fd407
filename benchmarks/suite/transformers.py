"""The encoder compared with ONNX Runtime, sentence-transformers and padded batches; its number formats."""

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.suite.encoders import NAIVE_BATCH, one_minus_cosine, pool_naively, read_papers
from benchmarks.suite.rows import OURS, Row, beside, in_turns, installed, seconds_of, share
from models.checkpoints.checkpoints import locate_checkpoint
from models.encoders.contextual import MAX_TOKENS
from models.encoders.devices import CPU, resolve_precision
from models.encoders.pooling import Window
from models.encoders.transformer import Transformer
from models.types import Precision

ROUNDS = 3


def rows(corpus: Path, n_papers: int, *, threads: int) -> Iterator[Row]:
    """Yield the rows of encoding ``n_papers`` abstracts; every contender gets the same prepared token ids."""
    torch.set_num_threads(threads)
    papers = read_papers(corpus, n_papers)
    checkpoint = locate_checkpoint("minilm")
    native = resolve_precision(Precision.AUTO, CPU) is Precision.BFLOAT16
    # Without instructions for it, bfloat16 takes many times as long as float32.
    rounded = [
        *([Precision.BFLOAT16] if native else []),
        *([Precision.INT8] if installed("openvino") else []),
    ]
    own, *others = (
        Transformer(checkpoint, max_tokens=MAX_TOKENS, device="cpu", precision=precision)
        for precision in (Precision.FLOAT32, *rounded)
    )
    sequences = [paper.ids for paper in own.wordpieces.tokenise(papers)]
    windows = [[(0, len(ids))] for ids in sequences]
    actions: dict[str, Callable[[], object]] = {
        OURS: partial(own.pool, sequences, windows),
        **{f"the same in {each.precision}": partial(each.pool, sequences, windows) for each in others},
        "torch, padded batches of 32": partial(pool_naively, own, sequences, windows),
    }
    notes = {}
    with tempfile.TemporaryDirectory() as folder:
        if installed("onnxruntime") and installed("onnxscript"):
            run = _by_onnx(own, Path(folder), threads)
            actions["ONNX Runtime, our batches"] = partial(_in_batches, run, sequences)
            notes["ONNX Runtime, our batches"] = _difference(own, sequences, _in_batches(run, sequences))
        if installed("sentence-transformers"):
            name = f"sentence-transformers, the same tokens, batches of {NAIVE_BATCH}"
            actions[name] = by_theirs = _by_sentence_transformers(sequences)
            notes[name] = _difference(own, sequences, by_theirs())
        for each in others:
            means = np.array([states[0, 0] for states in each.pool(sequences, windows)])
            notes[f"the same in {each.precision}"] = _difference(own, sequences, means)
        spent = in_turns(actions, rounds=ROUNDS, warm=False)
    if native:
        yield beside(
            {
                OURS: spent[f"the same in {Precision.BFLOAT16}"],
                "torch, float32, the same batches": spent[OURS],
            },
            "torch, float32, the same batches",
            goal="P7",
            what=f"encode {n_papers} abstracts, bfloat16, {threads} thread{'s' * (threads > 1)}",
            scale=1000 / n_papers,
            unit="ms a paper",
            least=1.9,
        )
    for model in (own, *others[:1]) if native else (own,):
        linear, whole = _linear_layers(model, sequences, windows)
        what = f"encode {n_papers} abstracts, {model.precision}: products with weights, the linear layers"
        yield share(what, linear, whole, scale=1000 / n_papers, unit="ms a paper")
    for peer in list(actions)[1:]:
        yield beside(
            spent,
            peer,
            goal="P7" if peer.startswith("torch") else "",
            what=f"encode {n_papers} abstracts, float32, {threads} thread{'s' * (threads > 1)}",
            scale=1000 / n_papers,
            unit="ms a paper",
            least=1.6 if peer.startswith("torch") else None,
            note=notes.get(peer, ""),
        )


def _linear_layers(
    model: Transformer, sequences: list[tuple[int, ...]], windows: list[list[Window]]
) -> tuple[list[float], list[float]]:
    """Return the seconds that linear layers take in each round of encoding, and those of the whole round."""
    began, of_layers = 0.0, 0.0

    def begin(*_: object) -> None:
        nonlocal began
        began = time.perf_counter()

    def end(*_: object) -> None:
        nonlocal of_layers
        of_layers += time.perf_counter() - began

    network = model._models[model.device]  # noqa: SLF001 - its own layers are timed
    layers = [each for each in network.modules() if isinstance(each, torch.nn.Linear)]
    hooks = [each.register_forward_pre_hook(begin) for each in layers]
    hooks += [each.register_forward_hook(end) for each in layers]
    linear, whole = [], []
    for _ in range(ROUNDS):
        of_layers = 0.0
        whole.append(seconds_of(partial(model.pool, sequences, windows)))
        linear.append(of_layers)
    for hook in hooks:
        hook.remove()
    return linear, whole


def _by_onnx(
    model: Transformer, folder: Path, threads: int
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Export the transformer to ONNX Runtime."""
    import onnxruntime  # noqa: PLC0415 - a peer

    network = model._models[model.device].eval()  # noqa: SLF001 - the network itself is exported

    class Last(torch.nn.Module):
        """The network reduced to its last hidden states."""

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            """Map ids and mask, both (n, length), to states (n, length, dim)."""
            states: torch.Tensor = network(input_ids=ids, attention_mask=mask).last_hidden_state
            return states

    example = (torch.ones(2, 16, dtype=torch.long), torch.ones(2, 16, dtype=torch.long))
    path = folder / "encoder.onnx"
    axes = {0: torch.export.Dim("n"), 1: torch.export.Dim("length", max=512)}
    torch.onnx.export(
        Last().eval(),
        example,
        str(path),
        input_names=["ids", "mask"],
        dynamo=True,
        dynamic_shapes={"ids": axes, "mask": axes},
        verbose=False,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda ids, mask: np.asarray(session.run(None, {"ids": ids, "mask": mask})[0])


def _by_sentence_transformers(sequences: list[tuple[int, ...]]) -> Callable[[], np.ndarray]:
    """Return its ``encode`` with its own batches, sorted by length, for token ids that are prepared."""
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - a peer

    def padded(ids: list[np.ndarray], **_: object) -> dict[str, torch.Tensor]:
        rows = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(each) for each in ids], batch_first=True)
        lengths = torch.tensor([len(each) for each in ids])
        return {"input_ids": rows, "attention_mask": (torch.arange(rows.shape[1]) < lengths[:, None]).long()}

    model = SentenceTransformer(str(locate_checkpoint("minilm").folder), device="cpu")
    model.preprocess = padded
    prepared = [np.array(ids) for ids in sequences]
    return partial(model.encode, prepared, batch_size=NAIVE_BATCH, show_progress_bar=False)


def _in_batches(
    run: Callable[[np.ndarray, np.ndarray], np.ndarray], sequences: list[tuple[int, ...]]
) -> np.ndarray:
    """Return the mean state of each sequence, in batches of similar length with as many tokens as ours."""
    order = sorted(range(len(sequences)), key=lambda number: len(sequences[number]))
    means = np.empty((len(sequences), 384), dtype=np.float32)
    first = 0
    while first < len(order):
        last = first + 1
        while last < len(order) and (last + 1 - first) * len(sequences[order[last]]) <= 2_048:
            last += 1
        batch = order[first:last]
        ids = np.zeros((len(batch), len(sequences[batch[-1]])), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, number in enumerate(batch):
            ids[row, : len(sequences[number])] = sequences[number]
            mask[row, : len(sequences[number])] = 1
        states = run(ids, mask)
        means[batch] = (states * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1)[:, None]
        first = last
    return means


def _difference(model: Transformer, sequences: list[tuple[int, ...]], other: np.ndarray) -> str:
    """Describe how far another system's mean states are from ours."""
    own = np.array([states[0, 0] for states in model.pool(sequences, [[(0, len(ids))] for ids in sequences])])
    return f"1 - cosine with ours at most {one_minus_cosine(own, other).max():.0e}"
