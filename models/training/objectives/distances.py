"""Distances between texts with gradients, by name: those that papers are ranked by (semantics 3.3, 3.4)."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from models.errors import InputError, UnknownNameError
from models.training.objectives.batch import Vectors
from models.transport import SERVING, Scorer
from models.transport.tensor import score_batch

DOCUMENT = "document"
DISTANCES = (Scorer.OT, Scorer.SINGLE, Scorer.MEAN_MIN, Scorer.ATTENTION, DOCUMENT)
TEMPERED = frozenset({Scorer.OT, Scorer.ATTENTION})  # those that read tau
_SMALLEST = 1e-12  # of a squared distance: the gradient of a root has no bound at 0


def require_distance(name: str) -> None:
    """Raise UnknownNameError unless ``name`` is one of DISTANCES."""
    if name not in DISTANCES:
        raise UnknownNameError(f"Unknown distance {name!r}; known: {', '.join(DISTANCES)}.")


def l2(a: Float[Tensor, "*#n dim"], b: Float[Tensor, "*#n dim"]) -> Float[Tensor, "*n"]:
    """The L2 distance of each row of ``a`` and that of ``b``; its gradient is 0 where the two are equal."""
    distance: Tensor = (a - b).square().sum(dim=-1).clamp(min=_SMALLEST).sqrt()
    return distance


def paired_distances(
    name: str, a: Vectors, b: Vectors, *, tau: float, dual: bool = False
) -> Float[Tensor, " n"]:
    """The distance of text ``i`` of ``a`` to text ``i`` of ``b``, in float64, by the distance ``name``.

    The plan is detached: the gradient flows through the costs alone. With ``dual`` the value is transport's
    dual, and its gradient that of the dual, marginals included, as ASPIRE trains (semantics 3.4, 3.10).
    """
    require_distance(name)
    if name == DOCUMENT:
        return l2(a.documents.double(), b.documents.double())
    if not tau > 0:
        raise InputError(f"tau is {tau}; expected a temperature above 0, in units of distance.")
    plans = score_batch(
        a.sentences, a.mask, b.sentences, b.mask, scorer=Scorer(name), settings=replace(SERVING, tau=tau)
    )
    if dual:
        return plans.distance
    cost = l2(a.sentences.double()[:, :, None], b.sentences.double()[:, None])  # (n, n_a, n_b)
    distances: Tensor = (plans.mass * cost).sum(dim=(1, 2))
    return distances


def all_distances(name: str, a: Vectors, b: Vectors, *, tau: float) -> Float[Tensor, "n m"]:
    """The distance of every text of ``a`` to every one of ``b``; see ``paired_distances``."""
    require_distance(name)
    rows, columns = torch.meshgrid(torch.arange(len(a)), torch.arange(len(b)), indexing="ij")
    pairs = paired_distances(name, a[rows.flatten()], b[columns.flatten()], tau=tau)
    return pairs.reshape(len(a), len(b))
