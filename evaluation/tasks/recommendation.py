"""SciDocs recommendation: which of the similar papers shown to a reader was clicked."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float32
from torch import nn

from evaluation.statistics.bootstrap import intervals
from evaluation.statistics.summary import Row
from models.errors import InputError
from models.types import Paper

EncodePapers = Callable[[Sequence[Paper]], Float32[np.ndarray, "n_papers dim"]]

_WORD = re.compile(r"\w+")
# The suite's own settings (experiment_configs/train_similar_papers_model.json).
SEED, N_EPOCHS, BATCH_TRIPLES, MARGIN, HIDDEN, DROPOUT, RHO, CLIP = 7, 5, 128, 0.1, 50, 0.4, 0.95, 5.0
MAX_NEGATIVES_PER_CLICK = 10
_BATCH_PAPERS = 256


class Click(NamedTuple):
    """The papers shown for ``query``, in their order, and the one that was clicked."""

    query: str
    clicked: str
    shown: tuple[str, ...]


class Metadata(NamedTuple):
    """The recommender's features of a paper besides its vector."""

    title: str
    year: int | None
    authors: frozenset[str]
    references: frozenset[str]
    cited_by: frozenset[str]


_NOTHING = Metadata("", None, frozenset(), frozenset(), frozenset())


def recommend(
    clicks: Mapping[str, Sequence[Click]],
    metadata: Mapping[str, Metadata],
    propensities: Sequence[float],
    papers: Mapping[str, Paper],
    encode: EncodePapers,
    *,
    system: str,
) -> list[Row]:
    """Return ``adj-NDCG`` and ``adj-P@1`` of the test clicks in percent, weighted by 1 / position propensity.

    A click has NDCG 1 / log2(2 + papers ranked above the clicked one), a tie counting half (semantics 4.2).
    The ranking is that of the suite's recommender, trained here on the train clicks: ten features of a pair,
    one the cosine of the two vectors, and one hidden layer. The suite has an eleventh, the position, and a
    weight for it in training, but sets the position to 0, so both have no effect and are left out. Its
    figures are matched only up to chance: it says they do not reproduce exactly, and splits titles with
    spaCy. Intervals resample query papers. Raises InputError if ``propensities`` are too few.
    """
    positions = [click.shown.index(click.clicked) for click in clicks["test"]]
    if max(positions) >= len(propensities):
        raise InputError(
            f"A click at position {max(positions) + 1}, but propensities of {len(propensities)} positions; "
            "test.csv and propensity_scores.json do not belong together. Fetch both again."
        )
    features = _features(clicks, metadata, papers, encode)
    scorer = _train(
        *(
            [_triples(*pair) for pair in zip(clicks[side], features[side], strict=True)]
            for side in ("train", "val")
        )
    )
    with torch.inference_mode():
        scores = [scorer(torch.from_numpy(of_click)).squeeze(1).numpy() for of_click in features["test"]]
    above = [_ranked_above(*pair) for pair in zip(clicks["test"], scores, strict=True)]
    named = {str(i): click for i, click in enumerate(clicks["test"])}
    found = intervals(
        {
            "adj-NDCG": {i: 100.0 / math.log2(2 + n) for i, n in zip(named, above, strict=True)},
            "adj-P@1": {i: 100.0 * (n == 0) for i, n in zip(named, above, strict=True)},
        },
        {i: click.query for i, click in named.items()},
        weights={i: 1.0 / propensities[position] for i, position in zip(named, positions, strict=True)},
    )
    return [
        Row("scidocs", system, "recomm", "all", measure, f.value, f.low, f.high, f.n)
        for measure, f in found.items()
    ]


def vectors_by_id(
    papers: Mapping[str, Paper], encode: EncodePapers
) -> tuple[Float32[np.ndarray, "n_rows dim"], dict[str, int]]:
    """Return the vectors of ``papers`` followed by a row of zeros, and the row of each paper."""
    listed = tuple(papers.values())
    batches = [encode(listed[i : i + _BATCH_PAPERS]) for i in range(0, len(listed), _BATCH_PAPERS)]
    vectors = np.concatenate(batches).astype(np.float32)
    padded = np.concatenate([vectors, np.zeros((1, vectors.shape[1]), dtype=np.float32)])
    return padded, {paper_id: row for row, paper_id in enumerate(papers)}


def _features(
    clicks: Mapping[str, Sequence[Click]],
    metadata: Mapping[str, Metadata],
    papers: Mapping[str, Paper],
    encode: EncodePapers,
) -> dict[str, list[Float32[np.ndarray, "n_shown n_features"]]]:
    """Return the features of each click's shown papers, by side; the cosine of the vectors is the last."""
    vectors, row_of = vectors_by_id(papers, encode)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)

    def of_click(click: Click) -> Float32[np.ndarray, "n_shown n_features"]:
        known = metadata.get(click.query, _NOTHING)
        cosines = unit[[row_of.get(paper, -1) for paper in click.shown]] @ unit[row_of.get(click.query, -1)]
        pairs = [_pair(click.query, known, paper, metadata.get(paper, _NOTHING)) for paper in click.shown]
        return np.column_stack([np.asarray(pairs, dtype=np.float32), cosines])

    return {side: [of_click(click) for click in of_side] for side, of_side in clicks.items()}


def _pair(query_id: str, query: Metadata, paper_id: str, paper: Metadata) -> tuple[float, ...]:
    """Return the features of a pair that need no vectors; each is about 1 at most."""
    return (
        _overlap(query.authors, paper.authors),
        _overlap(_words(query.title), _words(paper.title)),
        _overlap(query.cited_by, paper.cited_by),
        _overlap(query.references, paper.references),
        float(paper_id in query.cited_by or query_id in paper.references),
        float(query_id in paper.cited_by or paper_id in query.references),
        0.0 if paper.year is None else _clamped((2020 - paper.year) / 20),
        0.0 if query.year is None or paper.year is None else _clamped((query.year - paper.year) / 20),
        math.log(len(paper.cited_by) + 1) / 10,
    )


def _overlap(a: frozenset[str], b: frozenset[str]) -> float:
    """Return Jaccard's index; 0 for two empty sets."""
    return len(a & b) / len(a | b) if a or b else 0.0


def _words(title: str) -> frozenset[str]:
    return frozenset(_WORD.findall(title))


def _clamped(value: float) -> float:
    return max(-1.0, min(1.0, value))


def _triples(
    click: Click, features: Float32[np.ndarray, "n_shown n_features"]
) -> Float32[np.ndarray, "n_triples 2 n_features"]:
    """Pair the clicked paper with each of the first ten others."""
    clicked = click.shown.index(click.clicked)
    others = [i for i, paper in enumerate(click.shown) if paper != click.clicked][:MAX_NEGATIVES_PER_CLICK]
    return np.stack([np.broadcast_to(features[clicked], features[others].shape), features[others]], axis=1)


def _train(
    train: Sequence[Float32[np.ndarray, "_ 2 n_features"]],
    held_out: Sequence[Float32[np.ndarray, "_ 2 n_features"]],
) -> nn.Module:
    """Return the scorer with the lowest margin loss on ``held_out`` after any of its epochs."""
    triples, validation = (torch.from_numpy(np.concatenate(side)) for side in (train, held_out))
    torch.manual_seed(SEED)
    scorer = nn.Sequential(
        nn.Linear(triples.shape[2], HIDDEN),
        nn.ReLU(),
        nn.Dropout(DROPOUT),
        nn.Linear(HIDDEN, 1),
        nn.Sigmoid(),
    )
    optimiser = torch.optim.Adadelta(scorer.parameters(), rho=RHO)
    best, best_loss = scorer.state_dict(), math.inf
    for _ in range(N_EPOCHS):
        scorer.train()
        for batch in torch.split(torch.randperm(len(triples)), BATCH_TRIPLES):
            optimiser.zero_grad()
            _margin_loss(scorer, triples[batch]).backward()  # type: ignore[no-untyped-call]  # torch gives it no types
            nn.utils.clip_grad_value_(scorer.parameters(), CLIP)
            optimiser.step()
        scorer.eval()
        with torch.inference_mode():
            loss = float(_margin_loss(scorer, validation))
        if loss < best_loss:
            best, best_loss = {name: tensor.clone() for name, tensor in scorer.state_dict().items()}, loss
    scorer.load_state_dict(best)
    return scorer.eval()


def _margin_loss(scorer: nn.Module, triples: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = (MARGIN - scorer(triples[:, 0]) + scorer(triples[:, 1])).clamp(min=0).mean()
    return loss


def _ranked_above(click: Click, scores: Float32[np.ndarray, " n_shown"]) -> float:
    """Count the other papers that score higher than the clicked one; a tie counts half."""
    clicked = scores[click.shown.index(click.clicked)]
    others = np.array([s for paper, s in zip(click.shown, scores, strict=True) if paper != click.clicked])
    return float((others > clicked).sum() + 0.5 * (others == clicked).sum())
