"""Negatives of an example that belong to another query: they count only for the other queries."""

import numpy as np
import pytest
import torch

from models.registry import resolve
from models.training.assembly import assembled
from models.training.examples import Example, TrainingSet
from models.training.objectives import OBJECTIVES
from models.training.objectives.batch import EncodedBatch, RetrievalObjective, Vectors
from models.types import Paper

# The first three are the batch. c has four negatives: a's positive, a, a's partner by the fourth example,
# and a free one. h has two: one that h belongs to by the fifth example, and a free one.
EXAMPLES = (
    Example("a", "b", ("free1",)),
    Example("c", "d", ("b", "a", "partner", "free2")),
    Example("h", "i", ("cites-h", "free3")),
    Example("a", "partner"),
    Example("cites-h", "h"),
)
BATCH = EXAMPLES[:3]
NAMES = sorted({name for own in EXAMPLES for name in (own.query, own.positive, *own.negatives)})
ROWS = dict(zip(NAMES, np.random.default_rng(5).normal(size=(len(NAMES), 4)), strict=True))
TOGETHER = {frozenset((own.query, own.positive)) for own in EXAMPLES} | {frozenset((name,)) for name in NAMES}


def batch() -> EncodedBatch:
    """Return the batch of the first three examples, with document vectors only."""
    texts = {name: Paper(id=name, title="", abstract="", sentences=()) for name in NAMES}
    order = [name for own in BATCH for name in (own.query, own.positive, *own.negatives)]
    rows = torch.from_numpy(np.stack([ROWS[name] for name in order])).float()
    vectors = Vectors(rows[:, None], torch.ones(len(rows), 1, dtype=torch.bool), rows)
    return assembled(vectors, BATCH, [TrainingSet("set", texts, EXAMPLES)] * len(BATCH))


def build(name: str, **settings: object) -> RetrievalObjective:
    """Return the objective of a name."""
    built: RetrievalObjective = resolve(OBJECTIVES, name, "objective")(**settings)
    return built


def rivals(query: str, names: list[str]) -> list[str]:
    """Return the names that do not belong to the query."""
    return [name for name in names if frozenset((query, name)) not in TOGETHER]


def cosine(a: str, b: str) -> float:
    """Return the cosine of two texts' vectors."""
    return float(ROWS[a] @ ROWS[b] / np.linalg.norm(ROWS[a]) / np.linalg.norm(ROWS[b]))


def apart(a: str, b: str) -> float:
    """Return the distance of two texts' vectors."""
    return float(np.linalg.norm(ROWS[a] - ROWS[b]))


def test_ranking_against_all_negatives_leaves_out_those_that_belong_to_the_query() -> None:
    """Multiple-negatives ranking compares the positive only with texts that do not belong to the query."""
    given = [own.positive for own in BATCH] + [name for own in BATCH for name in own.negatives]
    total = 0.0
    for own in BATCH:
        scores = [20 * cosine(own.query, name) for name in (own.positive, *rivals(own.query, given))]
        total += np.logaddexp.reduce(scores) - scores[0]
    assert len(rivals("a", given)) == 2 + len(("free1", "free2", "cites-h", "free3"))
    assert build("mnrl")(batch()).item() == pytest.approx(total / len(BATCH), rel=1e-5)


def test_cross_entropy_leaves_out_an_own_negative_that_belongs_to_the_query() -> None:
    """In-batch cross-entropy leaves out an example's negatives that belong to its query."""
    loss = 0.0
    positives = [own.positive for own in BATCH]
    for own in BATCH:
        others = rivals(own.query, positives)
        there = [-apart(own.query, name) for name in (own.positive, *others)]
        there += [-apart(own.query, name) for name in rivals(own.query, list(own.negatives))]
        back = [-apart(other.query, own.positive) for other in BATCH]
        loss += np.logaddexp.reduce(there) - there[0] + np.logaddexp.reduce(back) + apart(*_pair(own))
    found = build("in-batch", distances=("document",), temperature=1.0)(batch()).item()
    assert found == pytest.approx(loss / 2 / len(BATCH), rel=1e-5)


def _pair(own: Example) -> tuple[str, str]:
    return own.query, own.positive


def test_a_triplet_has_no_negative_that_belongs_to_its_query() -> None:
    """The triplet margin has one triple for each negative that does not belong to its query."""
    triples = [(own, name) for own in BATCH for name in rivals(own.query, list(own.negatives))]
    losses = [max(0.0, apart(*_pair(own)) - apart(own.query, name) + 1) for own, name in triples]
    assert len(triples) == 6
    assert build("specter")(batch()).item() == pytest.approx(np.mean(losses), rel=1e-5)


def test_an_example_whose_negatives_all_belong_to_it_gets_one_of_another() -> None:
    """An example whose negatives all belong to its query gets another example's positive instead."""
    own = (Example("a", "b", ("p",)), Example("c", "d"), Example("p", "a"))
    texts = {name: Paper(id=name, title="", abstract="", sentences=()) for name in "abcdp"}
    rows = torch.eye(5) * torch.tensor([1.0, 1.0, 9.0, 1.0, 1.0])
    vectors = Vectors(rows[:, None], torch.ones(5, 1, dtype=torch.bool), rows)
    made = assembled(vectors, own[:2], [TrainingSet("set", texts, own)] * 2)
    # All but p are sqrt 2 apart, so each of the two triples has the margin for its loss; p is so far that a
    # triple with it has none.
    assert build("specter", mean=False)(made).item() == pytest.approx(2.0)
    assert made.known.tolist() == [[True], [False]]


def test_a_positive_that_another_set_knows_is_no_wrong_answer() -> None:
    """In a batch of several sets, texts that belong together in one set are not rivals in another."""
    texts = {name: Paper(id=name, title="", abstract="", sentences=()) for name in "abcd"}
    first = TrainingSet("first", texts, [Example("a", "b")])
    second = TrainingSet("second", texts, [Example("c", "d"), Example("d", "a"), Example("b", "c")])
    rows = torch.eye(4)
    vectors = Vectors(rows[:, None], torch.ones(4, 1, dtype=torch.bool), rows)
    made = assembled(vectors, (first.examples[0], second.examples[0]), [first, second])
    assert made.same.tolist() == [[True, True], [True, True]]


def test_a_text_is_no_wrong_answer_to_one_of_its_paper() -> None:
    """In a batch of several sets, a crop or the rest of a cloze query belongs where its paper does."""
    names = ("crop:rest:p:a", "crop:p:b", "q", "p", "r", "s", "rest:p")
    texts = {name: Paper(id=name, title="", abstract="", sentences=()) for name in names}
    crops = TrainingSet("crops", texts, [Example("crop:rest:p:a", "crop:p:b")])
    pairs = TrainingSet("pairs", texts, [Example("q", "p"), Example("r", "s", ("rest:p",))])
    rows = torch.eye(7)
    vectors = Vectors(rows[:, None], torch.ones(7, 1, dtype=torch.bool), rows)
    made = assembled(vectors, (*crops.examples, *pairs.examples), [crops, pairs, pairs])
    assert made.same.tolist() == [[True, True, False], [True, True, False], [False, False, True]]
    assert made.known.tolist() == [[True], [True], [False]]


@pytest.mark.parametrize("name", ["specter", "max", "attention", "ot"])
def test_a_batch_of_which_no_negative_is_one_has_no_loss(name: str) -> None:
    """If every negative of a batch belongs to its query, loss and gradients are 0."""
    examples = (Example("c", "d", ("partner",)), Example("c", "partner"))
    texts = {key: Paper(id=key, title="", abstract="", sentences=()) for key in ("c", "d", "partner")}
    rows = torch.from_numpy(np.random.default_rng(6).normal(size=(3, 4))).float().requires_grad_()
    vectors = Vectors(rows[:, None], torch.ones(3, 1, dtype=torch.bool), rows)
    loss = build(name)(assembled(vectors, examples[:1], [TrainingSet("set", texts, examples)]))
    (gradient,) = torch.autograd.grad(loss, rows)
    assert (0.0, 0.0) == (float(loss.detach()), float(gradient.abs().max()))
