"""The encoded texts of several forward passes as the batch that an objective gets."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool

from models.training.examples import Example, TrainingSet
from models.training.objectives.batch import EncodedBatch, Vectors


def joined(vectors: Sequence[Vectors], passes: Sequence[Sequence[int]]) -> Vectors:
    """The texts of several forward passes as one, in the order of the texts; padded to the longest."""
    longest = max(own.sentences.shape[1] for own in vectors)
    padding = [longest - own.sentences.shape[1] for own in vectors]
    pad = torch.nn.functional.pad
    sentences = torch.cat([pad(v.sentences, (0, 0, 0, p)) for v, p in zip(vectors, padding, strict=True)])
    mask = torch.cat([pad(v.mask, (0, p)) for v, p in zip(vectors, padding, strict=True)])
    together = Vectors(sentences, mask, torch.cat([own.documents for own in vectors]))
    return together[torch.from_numpy(np.argsort(np.concatenate([np.array(one) for one in passes])))]


def assembled(vectors: Vectors, examples: Sequence[Example], sets: Sequence[TrainingSet]) -> EncodedBatch:
    """The batch an objective gets, from the vectors of each example's query, positive and negatives in turn.

    ``sets[i]`` is the set that example ``i`` comes from.
    """
    n_texts = np.array([2 + len(example.negatives) for example in examples])
    starts = n_texts.cumsum() - n_texts
    negatives = [np.arange(start + 2, start + n) for start, n in zip(starts, n_texts, strict=True)]
    device = vectors.documents.device
    owner = np.repeat(np.arange(len(examples)), n_texts - 2)
    aligned = [example.aligned or (-1, -1) for example in examples]
    return EncodedBatch(
        query=vectors[torch.from_numpy(starts)],
        positive=vectors[torch.from_numpy(starts + 1)],
        negative=vectors[torch.from_numpy(np.concatenate(negatives))],
        owner=torch.from_numpy(owner).to(device),
        same=torch.tensor(_same(examples, sets), device=device),
        known=torch.from_numpy(_known(examples, sets)).to(device),
        aligned=torch.tensor(aligned, dtype=torch.int64, device=device),
    )


def _same(examples: Sequence[Example], sets: Sequence[TrainingSet]) -> list[list[bool]]:
    """Whether positive j must not count against query i, nor query i against positive j."""
    known = list(zip(examples, sets, strict=True))
    return [[own is other or _belong(own, of, other) for other, _ in known] for own, of in known]


def _known(examples: Sequence[Example], sets: Sequence[TrainingSet]) -> Bool[np.ndarray, "n n_negative"]:
    """Whether negative j is query i, or belongs to it in an example of a set that takes part."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(name for example in examples for name in example.negatives):
        places[name].append(place)
    known = np.zeros((len(examples), sum(map(len, places.values()))), dtype=np.bool_)
    taking_part = list({id(of): of for of in sets}.values())
    for row, example in enumerate(examples):
        akin = {example.query}.union(*(of.akin.get(example.query, ()) for of in taking_part))
        for name in akin & places.keys():
            known[row, places[name]] = True
    return known


def _belong(own: Example, of: TrainingSet, other: Example) -> bool:
    return (
        own.query == other.query
        or own.positive == other.positive
        or of.belong(own.query, other.positive)
        or of.belong(own.positive, other.query)
    )
