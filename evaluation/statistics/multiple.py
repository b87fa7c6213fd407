"""Holm's correction of many comparisons, which bounds the chance that any one is claimed wrongly."""

import math
from collections.abc import Sequence
from dataclasses import replace

from evaluation.statistics.summary import Comparison


def n_pairs(n_systems: int) -> int:
    """Return the number of pairs: the family of comparisons of the best system, chosen by its figure."""
    return n_systems * (n_systems - 1) // 2


def holm(ps: Sequence[float], *, n_family: int = 0) -> list[float]:
    """Correct the p values of one family (Holm, Scandinavian Journal of Statistics 1979); the order is kept.

    Claiming the differences with a corrected p under 5 % makes a false claim in at most 5 % of such families.
    nan stays nan and does not count. ``n_family`` is the size of a larger family that contains ``ps``: no
    value is then below what Holm's correction of the whole family would give.
    """
    corrected = [math.nan] * len(ps)
    known = sorted((i for i, p in enumerate(ps) if not math.isnan(p)), key=lambda i: ps[i])
    largest, n_counted = 0.0, max(len(known), n_family)
    for rank, i in enumerate(known):
        largest = max(largest, min(1.0, (n_counted - rank) * ps[i]))
        corrected[i] = largest
    return corrected


def correct(comparisons: Sequence[Comparison], *, n_family: int = 0) -> list[Comparison]:
    """Correct the p values of the comparisons of one table; each measure is a separate family.

    Measures of the same rankings rise and fall together, and a reader looks at one of them; a family holds
    every pair of systems and every facet in the table. That is enough if the pairs were chosen beforehand. In
    a table of the best system against each other one, the best was chosen by the same data: the family is all
    pairs of systems, ``n_family`` of them (``n_pairs``).
    """
    found = list(comparisons)
    for measure in dict.fromkeys(each.measure for each in found):
        family = [i for i, each in enumerate(found) if each.measure == measure]
        ps = holm([found[i].difference.p for i in family], n_family=n_family)
        for i, p in zip(family, ps, strict=True):
            found[i] = replace(found[i], p_corrected=p)
    return found


def correct_named(
    named: Sequence[tuple[str, Comparison]], *, n_family: int = 0
) -> tuple[tuple[str, Comparison], ...]:
    """Correct comparisons like ``correct``; each is paired with the name of the compared system."""
    found = correct([each for _, each in named], n_family=n_family)
    return tuple(zip((name for name, _ in named), found, strict=True))
