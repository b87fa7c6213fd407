"""Many comparisons at once: Holm's correction, which bounds the chance that any one is claimed wrongly."""

import math
from collections.abc import Sequence
from dataclasses import replace

from evaluation.statistics.summary import Comparison


def holm(ps: Sequence[float]) -> list[float]:
    """The p values of one family, corrected (Holm, Scandinavian Journal of Statistics 1979), in their order.

    Claiming those under 5 % claims any difference that is not there in at most 5 % of such families. nan,
    which says nothing, stays nan and does not count.
    """
    corrected = [math.nan] * len(ps)
    known = sorted((i for i, p in enumerate(ps) if not math.isnan(p)), key=lambda i: ps[i])
    largest = 0.0
    for rank, i in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * ps[i]))
        corrected[i] = largest
    return corrected


def correct(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons of one table with their p values corrected, each measure a family of its own.

    Measures of the same rankings rise and fall together, and a reader looks at one of them; what a family
    holds is every pair of systems and every facet that the table shows.
    """
    found = list(comparisons)
    for measure in dict.fromkeys(each.measure for each in found):
        family = [i for i, each in enumerate(found) if each.measure == measure]
        ps = holm([found[i].difference.p for i in family])
        for i, p in zip(family, ps, strict=True):
            found[i] = replace(found[i], p_corrected=p)
    return found


def correct_named(named: Sequence[tuple[str, Comparison]]) -> tuple[tuple[str, Comparison], ...]:
    """The same for comparisons beside the names of what they compare with."""
    return tuple(zip((name for name, _ in named), correct([each for _, each in named]), strict=True))
