"""Assembly of the encoded texts of several forward passes into the batch of an objective."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool

from models.training.examples import Example, TrainingSet, paper_of, related
from models.training.objectives.batch import EncodedBatch, Vectors


def joined(vectors: Sequence[Vectors], passes: Sequence[Sequence[int]]) -> Vectors:
    """Return the texts of several forward passes together, in their original order, padded to the longest."""
    longest = max(own.sentences.shape[1] for own in vectors)
    padding = [longest - own.sentences.shape[1] for own in vectors]
    pad = torch.nn.functional.pad
    sentences = torch.cat([pad(v.sentences, (0, 0, 0, p)) for v, p in zip(vectors, padding, strict=True)])
    mask = torch.cat([pad(v.mask, (0, p)) for v, p in zip(vectors, padding, strict=True)])
    together = Vectors(sentences, mask, torch.cat([own.documents for own in vectors]))
    return together[torch.from_numpy(np.argsort(np.concatenate([np.array(one) for one in passes])))]


def assembled(vectors: Vectors, examples: Sequence[Example], sets: Sequence[TrainingSet]) -> EncodedBatch:
    """Return the batch of an objective; ``vectors`` has each example's query, positive and negatives in turn.

    ``sets`` are all sets of the run: what belongs together in one of them is no wrong answer in another.
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
    """Return whether positive j must not count as a negative of query i, nor query i as one of positive j."""
    papers = [(paper_of(each.query), paper_of(each.positive)) for each in examples]
    akin = [(related(query, sets), related(positive, sets)) for query, positive in papers]
    return [
        [positive in to_query or query in to_positive for query, positive in papers]
        for to_query, to_positive in akin
    ]


def _known(examples: Sequence[Example], sets: Sequence[TrainingSet]) -> Bool[np.ndarray, "n n_negative"]:
    """Return whether negative j is of the paper of query i, or of one that belongs to it."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(name for example in examples for name in example.negatives):
        places[paper_of(name)].append(place)
    known = np.zeros((len(examples), sum(map(len, places.values()))), dtype=np.bool_)
    for row, example in enumerate(examples):
        for paper in related(example.query, sets) & places.keys():
            known[row, places[paper]] = True
    return known
