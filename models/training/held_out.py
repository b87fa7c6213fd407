"""Measurement of an encoder on held-out examples, such as co-citations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float64

from models.errors import InputError
from models.training.examples import TrainingSet, paper_of, related
from models.training.objectives.distances import DOCUMENT, require_distance
from models.training.trainable import Trainable
from models.transport import SERVING, Scorer, score_papers


def held_out_ranks(
    sets: TrainingSet, vectors: Mapping[str, tuple[np.ndarray, np.ndarray]], distance: str, *, tau: float
) -> Float64[np.ndarray, " n_examples"]:
    """Return the rank, from 1, of each example's positive among the positives of all examples.

    ``vectors`` are the (sentences, document) vectors of each text. Other positives that belong to the query
    are left out; ties count half. Raises InputError for a score that is not finite, which would rank first.
    """
    require_distance(distance)
    positives = sorted({example.positive for example in sets.examples})
    documents = np.stack([vectors[name][1] for name in positives])
    offsets = np.cumsum([0, *(len(vectors[name][0]) for name in positives)])
    rows = np.concatenate([vectors[name][0] for name in positives])
    papers, ranks = [paper_of(name) for name in positives], []
    for example in sets.examples:
        sentences, document = vectors[example.query]
        if distance == DOCUMENT:
            scores = -np.linalg.norm(documents.astype(np.float64) - document, axis=1)
        else:
            settings = replace(SERVING, tau=tau)
            scores = score_papers(sentences, rows, offsets, scorer=Scorer(distance), settings=settings).scores
        _expect_finite(f"A score of {example.query!r} by {distance}", scores)
        own = scores[positives.index(example.positive)]
        akin = related(example.query, [sets])
        rivals = scores[[paper not in akin for paper in papers]]
        ranks.append(1 + float((rivals > own).sum()) + float((rivals == own).sum()) / 2)
    return np.array(ranks)


def measure_held_out(
    model: Trainable, sets: TrainingSet, distances: Sequence[str], *, tau: float
) -> dict[str, float]:
    """Return mean reciprocal rank by each distance and the share at rank 1 (``NAME:first``), in percent."""
    vectors = encode_texts(model, sets)
    figures: dict[str, float] = {}
    for distance in distances:
        ranks = held_out_ranks(sets, vectors, distance, tau=tau)
        figures[distance] = 100 * float((1 / ranks).mean())
        figures[f"{distance}:first"] = 100 * float((ranks <= 1).mean())
    return figures


@torch.no_grad()
def encode_texts(model: Trainable, sets: TrainingSet) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the (sentences, document) vectors of every query and positive, without dropout."""
    named = sorted({name for example in sets.examples for name in (example.query, example.positive)})
    tokens = model.tokenise([sets.texts[name] for name in named])
    vectors: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for one in model.passes(tokens):
        encoded = model.encode([tokens[i] for i in one], seed=None)
        for own in (encoded.documents, encoded.sentences):
            _expect_finite("A vector of the held-out texts", own.cpu().numpy())
        for row, i in enumerate(one):
            sentences = encoded.sentences[row, : len(tokens[i].sentences)].cpu().numpy()
            vectors[named[i]] = (sentences, encoded.documents[row].cpu().numpy())
    return vectors


def _expect_finite(what: str, values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise InputError(
            f"{what} is not finite: the weights are not numbers any more. Lower the learning rate and train "
            "again from an earlier checkpoint."
        )
