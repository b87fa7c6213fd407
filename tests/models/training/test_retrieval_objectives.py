"""The objectives of retrieval training against plain float64 computations, and on a toy problem."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from models.errors import InputError, UnknownNameError
from models.registry import resolve
from models.training.objectives import OBJECTIVES, aspire_ts, aspire_ts_ot, negatives
from models.training.objectives.aspire_ot import TransportTriplet
from models.training.objectives.batch import EncodedBatch, RetrievalObjective, Vectors
from models.training.objectives.negatives import Triples, draw_triples

TAU, EPSILON, MARGIN = 0.5, 0.05, 1.0
Texts = list[np.ndarray]  # for each text: the row of the document, then those of its sentences
Distance = Callable[[np.ndarray, np.ndarray], float]
Expected = Callable[[Texts, Texts, Texts], float]  # the loss of queries, positives, negatives


def l2(a: np.ndarray, b: np.ndarray) -> float:
    """Return the distance of two vectors."""
    return float(np.sqrt(((a - b) ** 2).sum()))


def costs(q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the distances of all sentences of two texts."""
    return np.array([[l2(x, y) for y in p[1:]] for x in q[1:]])


def document(q: np.ndarray, p: np.ndarray) -> float:
    """Return the distance of two documents."""
    return l2(q[0], p[0])


def closest(q: np.ndarray, p: np.ndarray) -> float:
    """Return the distance of the closest sentences."""
    return float(costs(q, p).min())


def attention(q: np.ndarray, p: np.ndarray) -> float:
    """Return all distances, weighted by a softmax."""
    cost = costs(q, p)
    weights = np.exp(-cost / TAU)
    return float((weights * cost).sum() / weights.sum())


def plan(cost: np.ndarray) -> tuple[np.ndarray, float]:
    """Return mass and dual value of transport, semantics 3.4 marginals, by plain Sinkhorn to convergence."""
    a, b = np.exp(-cost.min(axis=1) / TAU), np.exp(-cost.min(axis=0) / TAU)
    a, b = a / a.sum(), b / b.sum()
    f, g = np.zeros(len(a)), np.zeros(len(b))
    while True:
        before, f = f, -EPSILON * np.log((b * np.exp((g - cost) / EPSILON)).sum(axis=1))
        g = -EPSILON * np.log((a[:, None] * np.exp((f[:, None] - cost) / EPSILON)).sum(axis=0))
        if np.abs(f - before).max() < 1e-13:
            break
    mass = a[:, None] * b * np.exp((f[:, None] + g - cost) / EPSILON)
    return mass, float(a @ f + b @ g)


def transport(q: np.ndarray, p: np.ndarray) -> float:
    """Return the dual value of transport."""
    return plan(costs(q, p))[1]


def hinge(distance: Distance, scale: float = 1.0) -> Expected:
    """Return the margin loss of two examples, with explicit negatives or the other's positive."""

    def loss(queries: Texts, positives: Texts, negatives: Texts) -> float:
        total = 0.0
        for i, q in enumerate(queries):
            for n in [negatives[i]] if negatives else [positives[1 - i]]:
                total += max(0.0, distance(q, positives[i]) - distance(q, n) + MARGIN)
        return scale * total

    return loss


def supervised(queries: Texts, positives: Texts, negatives: Texts) -> float:
    """Return the textual supervision loss, with (0, 1) aligned in the first example, (1, 0) in the second."""
    pairs = [(0, 1), (1, 0)]
    total = 0.0
    for i, q in enumerate(queries):
        near = l2(q[1 + pairs[i][0]], positives[i][1 + pairs[i][1]])
        if negatives:
            far = closest(q, negatives[i])
        else:
            k, m = pairs[1 - i]
            far = l2(q[1 + k], positives[1 - i][1 + m])
        total += max(0.0, near - far + MARGIN)
    return total


def cosine_ranking(queries: Texts, positives: Texts, negatives: Texts) -> float:
    """Return the multiple-negatives ranking loss, with all negatives for every query."""
    total = 0.0
    for i, q in enumerate(queries):
        cosines = [
            q[0] @ c[0] / np.linalg.norm(q[0]) / np.linalg.norm(c[0]) for c in [*positives, *negatives]
        ]
        total -= 20 * cosines[i] - np.log(np.exp(20 * np.array(cosines)).sum())
    return total / len(queries)


def both_ways(distance: Distance) -> Expected:
    """Return the cross-entropy over a batch, temperature 0.05; a negative counts for its query alone."""

    def loss(queries: Texts, positives: Texts, negatives: Texts) -> float:
        logits = np.array([[-distance(q, p) / 0.05 for p in positives] for q in queries])
        there = back = 0.0
        for i, q in enumerate(queries):
            own = [-distance(q, negatives[i]) / 0.05] if negatives else []
            there -= logits[i, i] - np.logaddexp.reduce([*logits[i], *own])
            back -= logits[i, i] - np.logaddexp.reduce(logits[:, i])
        return (there + back) / (2 * len(queries))

    return loss


def one_pair(cost: np.ndarray) -> np.ndarray:
    """Return all mass on the closest pair of sentences."""
    mass = np.zeros_like(cost)
    mass[np.unravel_index(cost.argmin(), cost.shape)] = 1.0
    return mass


def each_nearest(cost: np.ndarray) -> np.ndarray:
    """Return the mass of each query sentence, equal ones, on its nearest sentence."""
    return np.eye(cost.shape[1])[cost.argmin(axis=1)] / len(cost)


def soft_mass(cost: np.ndarray) -> np.ndarray:
    """Return the softmax of all cells."""
    weights = np.exp(-cost / TAU)
    return weights / weights.sum()


# The mass of each distance of ``in-batch`` between sentences, which has no gradient.
MASSES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ot": lambda cost: plan(cost)[0],
    "single": one_pair,
    "mean_min": each_nearest,
    "attention": soft_mass,
}
IN_BATCH = [f"in-batch, {names}" for names in [*MASSES, "single+mean_min"]]


def with_fixed_mass(name: str, given: list[Texts]) -> Distance:
    """Return the distance sum(mass * cost) with the mass of the texts as they are now.

    A pair of texts is found by the identity of their arrays, which may change in place.
    """
    queries, *others = given
    fixed = {(id(q), id(p)): MASSES[name](costs(q, p)) for q in queries for own in others for p in own}
    return lambda q, p: float((fixed[id(q), id(p)] * costs(q, p)).sum())


def total_of(*losses: Expected) -> Expected:
    """Return the sum of several losses."""
    return lambda q, p, n: sum(loss(q, p, n) for loss in losses)


def mean_of(*losses: Expected) -> Expected:
    """Return the mean of several losses."""
    return lambda q, p, n: total_of(*losses)(q, p, n) / len(losses)


CASES: dict[str, tuple[dict[str, object], Expected]] = {
    "specter": ({}, hinge(document, scale=0.5)),
    "specter, summed": ({"mean": False}, hinge(document)),
    "abs": ({}, supervised),
    "ts": ({}, supervised),
    "ot": ({"tau": TAU}, hinge(transport)),
    "ts-ot": ({"tau": TAU}, total_of(supervised, hinge(transport))),
    "max": ({}, hinge(closest)),
    "attention": ({"tau": TAU}, hinge(attention)),
    "mnrl": ({}, cosine_ranking),
    "in-batch": ({"distances": ("document",)}, both_ways(document)),
}


def test_every_objective_is_tested() -> None:
    """Each entry of the registry has a case here."""
    assert {case.partition(",")[0] for case in CASES} == {*OBJECTIVES}


def build(case: str) -> RetrievalObjective:
    """Return the objective of a case."""
    name, _, distance = case.partition(", ")
    settings = {"distances": (*distance.split("+"),), "tau": TAU} if case in IN_BATCH else CASES[case][0]
    objective: RetrievalObjective = resolve(OBJECTIVES, name, "objective")(**settings)
    return objective


def texts(seed: int, sizes: tuple[int, ...], *, scale: float = 0.4) -> Texts:
    """Return random texts with these numbers of sentences, whose values float32 can hold."""
    rng = np.random.default_rng(seed)
    drawn = [scale * rng.normal(size=(1 + size, 3)) for size in sizes]
    return [rows.astype(np.float32).astype(np.float64) for rows in drawn]


def padded(own: Texts, width: int = 3) -> tuple[Vectors, Tensor]:
    """Return the texts as an objective gets them, and the tensor that gradients reach."""
    rows = np.zeros((len(own), 1 + width, 3))
    mask = np.zeros((len(own), width), dtype=bool)
    for i, text in enumerate(own):
        rows[i, : len(text)] = text
        mask[i, : len(text) - 1] = True
    leaf = torch.from_numpy(rows).float().requires_grad_()
    return Vectors(leaf[:, 1:], torch.from_numpy(mask), leaf[:, 0]), leaf


def batch_of(queries: Vectors, positives: Vectors, negatives: Vectors) -> EncodedBatch:
    """Return a batch in which only query and positive belong together."""
    n = len(queries)
    return EncodedBatch(
        query=queries,
        positive=positives,
        negative=negatives,
        owner=torch.arange(len(negatives)),
        same=torch.eye(n, dtype=torch.bool),
        known=torch.zeros(n, len(negatives), dtype=torch.bool),
        aligned=torch.tensor([[0, 1], [1, 0]] * n)[:n],
    )


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("case", [*CASES, *IN_BATCH])
def test_loss_and_gradient_equal_a_plain_computation(case: str, explicit: bool) -> None:
    """Each loss is that of a plain float64 computation, and its gradient that of finite differences."""
    given = [texts(1, (2, 3)), texts(2, (3, 2)), texts(3, (2, 2)) if explicit else []]
    if case in IN_BATCH:
        names = case.split()[1].split("+")
        expected = mean_of(*(both_ways(with_fixed_mass(name, given)) for name in names))
    else:
        expected = CASES[case][1]
    vectors, leaves = zip(*(padded(own) for own in given), strict=True)
    loss = build(case)(batch_of(*vectors))
    assert expected(*given) > 0
    assert loss.item() == pytest.approx(expected(*given), abs=2e-5)
    loss.backward()
    for part, leaf in enumerate(leaves[: 3 if explicit else 2]):
        gradient = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        for i, text in enumerate(given[part]):
            for place in np.ndindex(text.shape):
                kept, step = text[place], 1e-5
                text[place] = kept + step
                above = expected(*given)
                text[place] = kept - step
                below = expected(*given)
                text[place] = kept
                assert gradient[i][place].item() == pytest.approx((above - below) / 2 / step, abs=2e-3)


def test_a_negative_is_never_the_own_positive_nor_one_that_belongs_to_the_query() -> None:
    """Over many draws each example gets every rival, and no text that belongs to its query."""
    (queries, _), (positives, _) = padded(texts(6, (2,) * 5)), padded(texts(7, (2,) * 5))
    none = Vectors(queries.sentences[:0], queries.mask[:0], queries.documents[:0])
    same = torch.eye(5, dtype=torch.bool)
    same[0, 1] = same[1, 0] = True
    batch = EncodedBatch(
        queries,
        positives,
        none,
        torch.zeros(0, dtype=torch.int64),
        same,
        torch.zeros(5, 0, dtype=torch.bool),
        torch.zeros(5, 2, dtype=torch.int64),
    )
    torch.manual_seed(0)
    drawn = {(int(i), int(j)) for _ in range(300) for i, j in zip(*_origins(batch), strict=True)}
    assert drawn == {(i, j) for i in range(5) for j in range(5) if not same[i, j]}


def _origins(batch: EncodedBatch) -> tuple[Tensor, Tensor]:
    triples = draw_triples(batch)
    torch.testing.assert_close(triples.negative.documents, batch.positive.documents[triples.origin])
    return triples.example, triples.origin


@pytest.mark.parametrize("name", ["ot", "ts", "ts-ot", "specter", "abs", "max", "attention"])
def test_a_batch_without_a_negative_moves_nothing(name: str) -> None:
    """A batch of one example without negatives has loss 0 and gradient 0."""
    (queries, _), (positives, _) = padded(texts(6, (2,))), padded(texts(7, (2,)))
    sentences, documents = (own.detach().requires_grad_() for own in (queries.sentences, queries.documents))
    queries = Vectors(sentences, queries.mask, documents)
    none = Vectors(queries.sentences[:0], queries.mask[:0], queries.documents[:0])
    loss = build(name)(batch_of(queries, positives, none))
    loss.backward()
    assert loss.item() == 0
    for leaf in (sentences, documents):
        torch.testing.assert_close(leaf.grad, torch.zeros_like(leaf))


def test_an_aligned_sentence_past_the_limit_is_the_last_one_read() -> None:
    """Numbers of sentences that were cut off name the last sentence read, not padding; so in any batch."""
    given = [padded(texts(seed, (2, 2)))[0] for seed in (1, 2)]  # and padding
    none = Vectors(*(own[:0] for own in (given[0].sentences, given[0].mask, given[0].documents)))
    batch = batch_of(*given, none)
    losses = [
        build("ts")(replace(batch, aligned=torch.tensor(pairs))).item()
        for pairs in ([[2, 4], [1, 0]], [[1, 1], [1, 0]])
    ]
    assert losses[0] == losses[1] > 0


def test_both_losses_of_a_sum_see_the_same_triples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual supervision and transport, trained together, draw one negative for each example."""
    drawn: list[Triples] = []

    def noted(batch: EncodedBatch) -> Triples:
        drawn.append(draw_triples(batch))
        return drawn[-1]

    for module in (aspire_ts_ot, aspire_ts, negatives):
        monkeypatch.setattr(module, "draw_triples", noted)
    given = [padded(texts(seed, (2,) * 5))[0] for seed in (1, 2)]
    none = Vectors(*(own[:0] for own in (given[0].sentences, given[0].mask, given[0].documents)))
    batch = batch_of(*given, none)
    together = build("ts-ot")(batch)
    assert 1 == len(drawn)
    alone = aspire_ts.TextualSupervision()(batch, drawn[0]) + TransportTriplet(tau=TAU)(batch, drawn[0])
    assert together.item() == pytest.approx(alone.item())


def test_textual_supervision_asks_for_aligned_sentences() -> None:
    """Examples without aligned sentences are refused, and the error names ``--align``."""
    (queries, _), (positives, _) = padded(texts(6, (2, 2))), padded(texts(7, (2, 2)))
    none = Vectors(queries.sentences[:0], queries.mask[:0], queries.documents[:0])
    batch = batch_of(queries, positives, none)
    batch.aligned[0] = -1
    with pytest.raises(InputError, match="--align"):
        build("ts")(batch)


def test_unknown_distances_are_named() -> None:
    """An unknown distance is refused with the known ones."""
    with pytest.raises(UnknownNameError, match="known: ot, single"):
        resolve(OBJECTIVES, "in-batch", "objective")(distances=("cosine",))


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        (
            "in-batch",
            {"distances": "ot"},
            "distances are 'ot'; expected a list of at least one of ot, single",
        ),
        ("in-batch", {"distances": ()}, "expected a list of at least one"),
        ("in-batch", {"distances": 3}, "expected a list of at least one"),
        ("specter", {"mean": "no"}, "mean is 'no'; expected true or false"),
    ],
)
def test_settings_of_another_kind_are_refused(name: str, given: dict[str, object], said: str) -> None:
    """A text is no list of distances and neither true nor false."""
    with pytest.raises(InputError, match=said):
        resolve(OBJECTIVES, name, "objective")(**given)


@pytest.mark.parametrize("case", [*CASES, *IN_BATCH])
def test_separable_papers_are_separated(case: str) -> None:
    """With each objective, a linear map learns to tell separable papers apart, and the loss nears 0."""
    torch.manual_seed(1)
    n = 8
    topics = 6 * torch.nn.functional.one_hot(torch.arange(n), n).float()
    noise = 4 * torch.randn(2, n, 4, 6)
    inputs = torch.cat([topics.expand(2, 4, n, n).transpose(1, 2), noise], dim=-1)  # (2, n, 4, n + 6)
    move = torch.nn.Linear(n + 6, n + 6, bias=False)
    optimiser = torch.optim.Adam(move.parameters(), lr=0.08)
    objective, mask = build(case), torch.ones(n, 3, dtype=torch.bool)

    def encoded() -> tuple[Vectors, Vectors]:
        rows = move(inputs)
        query, positive = (Vectors(own[:, 1:], mask, own[:, 0]) for own in rows)
        return query, positive

    for _ in range(40):
        query, positive = encoded()
        loss = objective(
            batch_of(query, positive, Vectors(query.sentences[:0], mask[:0], query.documents[:0]))
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    query, positive = (own for own in encoded())
    assert loss.item() < 0.02
    distances = torch.cdist(query.documents, positive.documents)
    if case not in {"specter", "specter, summed", "mnrl", "in-batch"}:
        rows, columns = query.sentences.reshape(-1, n + 6), positive.sentences.reshape(-1, n + 6)
        distances = torch.cdist(rows, columns).reshape(n, 3, n, 3).amin(dim=(1, 3))
    torch.testing.assert_close(distances.argmin(dim=1), torch.arange(n))
