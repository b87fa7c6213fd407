"""Compiled loops over the cells and postings of a segment's words; ``akin.compiling`` runs each once."""

import numpy as np

from models.transport.compiled import compiled


@compiled
def add_products(
    paper_starts: np.ndarray,
    numbers: np.ndarray,
    counts: np.ndarray,
    papers: np.ndarray,
    weights: np.ndarray,
    rarities: np.ndarray,
    tempered: np.ndarray,
    products: np.ndarray,
) -> None:
    """Add to ``products`` the dot product of each of the ``papers`` with ``weights``, one per word."""
    for i in range(papers.shape[0]):
        for cell in range(paper_starts[papers[i]], paper_starts[papers[i] + 1]):
            weight = weights[numbers[cell]]
            if weight:
                products[i] += tempered[counts[cell]] * rarities[numbers[cell]] * weight


@compiled
def add_shared(
    papers: np.ndarray,
    times: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    weights: np.ndarray,
    tempered: np.ndarray,
    sums: np.ndarray,
) -> None:
    """Add to ``sums``, for each paper, the weighted counts of words with postings ``starts[w]:ends[w]``."""
    for word in range(starts.shape[0]):
        for i in range(starts[word], ends[word]):
            sums[papers[i]] += weights[word] * tempered[times[i]]


@compiled
def nearest_of(
    sums: np.ndarray, norms: np.ndarray, allowed: np.ndarray, places: np.ndarray, cosines: np.ndarray
) -> int:
    """Fill ``places`` and ``cosines`` with the ``allowed`` papers of the largest ``sums / norms`` above 0.

    Returns how many there are; among equal papers, the first are kept. The result is a heap, the least first.
    """
    n_found, most = 0, places.shape[0]
    for paper in range(sums.shape[0]):
        if most == 0 or sums[paper] <= 0 or not allowed[paper]:
            continue
        cosine = sums[paper] / norms[paper]
        if n_found < most:  # sift up from the end
            at = n_found
            n_found += 1
            while at > 0:
                above = (at - 1) // 2
                if cosines[above] < cosine:
                    break
                places[at], cosines[at] = places[above], cosines[above]
                at = above
        elif cosine > cosines[0]:  # sift down from the top
            at = 0
            while 2 * at + 1 < most:
                below = 2 * at + 1
                other = below + 1
                if other < most and (
                    cosines[other] < cosines[below]
                    or (cosines[other] == cosines[below] and places[other] > places[below])
                ):
                    below = other
                if cosine <= cosines[below]:  # among equal papers, this is the last
                    break
                places[at], cosines[at] = places[below], cosines[below]
                at = below
        else:
            continue
        places[at], cosines[at] = paper, cosine
    return n_found
