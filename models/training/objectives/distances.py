"""The distances that papers are ranked by, with gradients, by name (semantics 3.3, 3.4)."""

import math
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from models.errors import InputError, UnknownNameError
from models.training.objectives.batch import Vectors
from models.transport import SERVING, Scorer
from models.transport.tensor import costs_of, plans_of

DOCUMENT = "document"
DISTANCES = (Scorer.OT, Scorer.SINGLE, Scorer.MEAN_MIN, Scorer.ATTENTION, DOCUMENT)
TEMPERED = frozenset({Scorer.OT, Scorer.ATTENTION})  # the distances that use tau
_MIN_SQUARED = 1e-12  # of a squared distance: the gradient of a root is unbounded at 0


def require_distance(name: str) -> None:
    """Raise UnknownNameError unless ``name`` is one of DISTANCES."""
    if name not in DISTANCES:
        raise UnknownNameError(f"Unknown distance {name!r}; known: {', '.join(DISTANCES)}.")


def require_positive(*, or_zero: bool = False, **settings: object) -> None:
    """Raise InputError unless each of the ``settings`` of an objective is a finite number above 0.

    ``or_zero``: 0 is accepted as well.
    """
    for name, value in settings.items():
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
        if not (0 < number < math.inf or (or_zero and number == 0)):
            expected = "a number of 0 or more" if or_zero else "a number above 0"
            raise InputError(f"The objective's {name} is {value!r}; expected {expected}.")


def l2(a: Float[Tensor, "*#n dim"], b: Float[Tensor, "*#n dim"]) -> Float[Tensor, "*n"]:
    """Return the L2 distance of each row of ``a`` to that of ``b``; the gradient of equal rows is 0."""
    distance: Tensor = (a - b).square().sum(dim=-1).clamp(min=_MIN_SQUARED).sqrt()
    return distance


def paired_distances(
    name: str, a: Vectors, b: Vectors, *, tau: float, dual: bool = False
) -> Float[Tensor, " n"]:
    """Return the distance ``name`` of text ``i`` of ``a`` to text ``i`` of ``b``, in float64.

    The plan is detached: the gradient flows only through the costs. With ``dual``, value and gradient are
    those of transport's dual, marginals included, as in ASPIRE's training (semantics 3.4, 3.10); the gradient
    of ``attention`` then flows through its weights too. Raises UnknownNameError for the name, InputError for
    a ``tau`` not above 0.
    """
    require_distance(name)
    if name == DOCUMENT:
        return l2(a.documents.double(), b.documents.double())
    real = a.mask[:, :, None] & b.mask[:, None, :]
    return _planned(name, costs_of(a.sentences, b.sentences, real), real, tau=tau, dual=dual)


def all_distances(name: str, a: Vectors, b: Vectors, *, tau: float) -> Float[Tensor, "n m"]:
    """Return the distance of every text of ``a`` to every text of ``b``; see ``paired_distances``."""
    require_distance(name)
    n, m = len(a), len(b)
    if name == DOCUMENT:
        return costs_of(a.documents, b.documents, torch.ones(n, m, dtype=torch.bool, device=a.mask.device))
    # All sentences in one call, so that each is read once instead of once for each pair of texts.
    real = (a.mask.flatten()[:, None] & b.mask.flatten()).reshape(n, -1, m, b.mask.shape[1])
    cost = costs_of(a.sentences.flatten(0, 1), b.sentences.flatten(0, 1), real.flatten(2).flatten(0, 1))
    pairs = (own.reshape(real.shape).transpose(1, 2).flatten(0, 1) for own in (cost, real))
    return _planned(name, *pairs, tau=tau).reshape(n, m)


def _planned(
    name: str,
    cost: Float64[Tensor, "n n_a n_b"],
    real: Bool[Tensor, "n n_a n_b"],
    *,
    tau: float,
    dual: bool = False,
) -> Float64[Tensor, " n"]:
    """Return the distances by the plans of ``cost``; gradients as in ``paired_distances``."""
    if not tau > 0:
        raise InputError(f"tau is {tau}; expected a temperature above 0, in units of distance.")
    plans = plans_of(cost, real, scorer=Scorer(name), settings=replace(SERVING, tau=tau))
    if dual:
        return plans.distance
    distances: Tensor = (plans.mass * cost).sum(dim=(1, 2))
    return distances
