"""Examples from citations: SPECTER's triplets (Cohan et al. 2020, section 3.2; semantics 3.10, 4.2)."""

from collections.abc import Mapping, Sequence

import numpy as np

from models.errors import InputError
from models.training.examples import Example
from models.types import Paper


def citation_triplets(
    cited: Mapping[str, Sequence[str]],
    papers: Mapping[str, Paper],
    *,
    n_hard: int,
    n_easy: int,
    most_per_paper: int,
    seed: int,
) -> list[Example]:
    """Return examples of a paper, a paper that it cites, and negatives that it does not cite.

    Hard negatives are cited by the paper's citations, easy ones are drawn from all papers; SPECTER takes 2
    hard and 3 easy ones. Missing hard negatives are replaced by easy ones. Each paper is the query of at most
    ``most_per_paper`` of its citations, drawn at random; the others ``belong`` to it. Papers that are not in
    ``papers`` are in no example. Raises InputError for too few papers to draw from.
    """
    names = sorted(papers)
    if len(names) < n_hard + n_easy + 2:
        raise InputError(
            f"{len(names)} papers are too few for {n_hard + n_easy} negatives per example; give more papers."
        )
    known = {name: sorted({i for i in of if i in papers and i != name}) for name, of in cited.items()}
    rng = np.random.default_rng([seed, 2])
    examples = []
    for query in sorted(known.keys() & papers.keys()):
        own = known[query]
        shut = {query, *own}
        hard = sorted({far for near in own for far in known.get(near, ()) if far not in shut})
        shuffled = rng.permutation(own).tolist() if own else []
        belong = tuple(sorted(shuffled[most_per_paper:]))
        for positive in shuffled[:most_per_paper]:
            negatives = rng.permutation(hard)[:n_hard].tolist() if hard else []
            while len(negatives) < n_hard + n_easy and len(shut) + len(negatives) < len(names):
                drawn = names[int(rng.integers(len(names)))]
                if drawn not in shut and drawn not in negatives:
                    negatives.append(drawn)
            examples.append(Example(query, positive, tuple(negatives), belong=belong))
    return examples
