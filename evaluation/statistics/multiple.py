"""Many comparisons at once: Holm's correction, which bounds the chance that any one is claimed wrongly."""

import math
from collections.abc import Sequence
from dataclasses import replace

from evaluation.statistics.summary import Comparison


def n_pairs(n_systems: int) -> int:
    """How many comparisons ``n_systems`` give: the family of the best one, chosen by what it is judged by."""
    return n_systems * (n_systems - 1) // 2


def holm(ps: Sequence[float], *, n_family: int = 0) -> list[float]:
    """The p values of one family, corrected (Holm, Scandinavian Journal of Statistics 1979), in their order.

    Claiming those under 5 % claims any difference that is not there in at most 5 % of such families. nan,
    which says nothing, stays nan and does not count. ``n_family`` counts the comparisons of a family of which
    ``ps`` are some: then no value is below what Holm's correction of all of them would give.
    """
    corrected = [math.nan] * len(ps)
    known = sorted((i for i, p in enumerate(ps) if not math.isnan(p)), key=lambda i: ps[i])
    largest, n_counted = 0.0, max(len(known), n_family)
    for rank, i in enumerate(known):
        largest = max(largest, min(1.0, (n_counted - rank) * ps[i]))
        corrected[i] = largest
    return corrected


def correct(comparisons: Sequence[Comparison], *, n_family: int = 0) -> list[Comparison]:
    """The comparisons of one table with their p values corrected, each measure a family of its own.

    Measures of the same rankings rise and fall together, and a reader looks at one of them; what a family
    holds is every pair of systems and every facet that the table shows. That is enough where the pairs were
    chosen beforehand. A table of the best system against each other one was chosen by the same data: its
    family are all pairs of systems, ``n_family`` of them (``n_pairs``).
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
    """The same for comparisons beside the names of what they compare with."""
    found = correct([each for _, each in named], n_family=n_family)
    return tuple(zip((name for name, _ in named), found, strict=True))
