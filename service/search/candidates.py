"""Candidates: papers nearest to the query by sentences (single match, semantics 3.3) or by words."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import Final

import numpy as np
from jaxtyping import Bool, Float32, Int64

from indexer.index.backends.nearest import best_of_owners
from indexer.snapshot.snapshot import Snapshot
from models.text.sentences import normalised_text
from models.text.words import plain
from models.types import Candidate, Facet, Paper
from service.context import check_deadline
from service.search.aspect import NO_ROWS, Part, Rows, is_single_seed
from service.search.query import Strategy
from service.search.words import WITHOUT_WORDS, QueryVectors, SharedWords

# Single match gives the re-ranking at least this many papers for each requested result.
CANDIDATES_PER_RESULT: Final = 5
# This many times as many if the ranking uses more than the search, as with contrast: on 20,000 real
# abstracts, 99.9 % of the first 20 papers are then those of re-ranking all (95.9 % without), for 6 ms more.
MORE_CANDIDATES: Final = 5

# How the search widens: rows nearest to any sentence of the query, per wanted paper. Measured:
# docs/decisions/retrieval/candidates.md.
_HITS_PER_PAPER: Final = 2
_WIDEN: Final = 2
# Up to this many distances are requested in one search: a small collection would need a second one anyway.
ALL_AT_ONCE: Final = 32_768
# Up to this many papers that are not allowed, such as the query itself, are dropped from a longer list of
# hits: giving the index a mask of millions of rows takes longer.
_FEW_PAPERS: Final = 32
# If words count, a quarter more papers are re-ranked, words find half as many papers as vectors, and one in
# eight of the list has a rare word or a quoted phrase, however far it is by everything else. Measured:
# docs/decisions/retrieval/shared-words.md.
_MORE_WITH_WORDS: Final = 4
_VECTORS_TO_WORDS: Final = 2
_ALL_TO_RARE: Final = 8
_MAX_TITLED: Final = 16  # papers with the typed title that come first, at most
# Papers read to look for quoted phrases, of those that have all words of a phrase: 50 ms.
_TEXTS_READ: Final = 2_000
_TEXTS_AT_ONCE: Final = 256
# How many times as many papers each further search of a long list asks for.
_DEEPER: Final = 2

# For several seeds. Measured: docs/decisions/retrieval/several-seeds.md. The most query sentences of a
# search; if there are more, each seed keeps those nearest to the mean of its sentences.
_MAX_SENTENCES: Final = 512
# Hits per wanted paper, summed over all sentences, and the least hits of one sentence.
_HITS_OF_ALL: Final = 4
_MIN_HITS: Final = 20
# Sentences searched for between two checks of the deadline.
_BATCH: Final = 64


def depth_for(parts: Sequence[Part], limit: int, *, least: int, words: bool) -> int:
    """Return how many papers are re-ranked together for ``limit`` results, at least ``least``.

    More for several parts, and if ``words`` count, because a paper may be similar by either.
    """
    n_papers = max(least, limit * CANDIDATES_PER_RESULT)
    if not is_single_seed(parts):
        n_papers = max(least * MORE_CANDIDATES, n_papers)
    elif len(parts) > 1:
        n_papers *= MORE_CANDIDATES
    return n_papers + n_papers // _MORE_WITH_WORDS if words else n_papers


def list_candidates(
    snapshot: Snapshot,
    parts: Sequence[Part],
    *,
    strategy: Strategy = Strategy.ANY,
    n_papers: int,
    first: int,
    allowed: Bool[np.ndarray, " n_papers"],
    words: QueryVectors = WITHOUT_WORDS,
    among: Rows = NO_ROWS,
    omitted: Sequence[Paper] = (),
) -> list[int]:
    """Return the positions of the first ``n_papers`` of a list that is the same however far it is read.

    The nearest come first; if ``words`` count, papers whose title was typed, then the nearest by both. Fewer
    if fewer are allowed. The first search finds ``first`` papers; each wider one appends those it adds, in
    order, as an approximate index may find other papers when more are requested. So the list depends on
    ``first``. A part is searched for only in the sentences ``among`` the rows of its facets. Papers with the
    title or abstract of one of ``omitted`` are left out, ignoring letter case and spacing. Raises
    DeadlineError.
    """
    several = not is_single_seed(parts)
    queries = _by_rows(parts, strategy) if several else {parts[0].beside: parts[0].vectors}
    shared = words.together(np.array([0.0 if part.away else part.weight for part in parts]))
    same = {normalised_text(text) for paper in omitted for text in (paper.title, paper.abstract)} - {""}
    quoted = [] if shared is None else list(_with_phrases(snapshot, shared, allowed))
    titled = [] if shared is None else [each for each in shared.titled if allowed[each]][:_MAX_TITLED]
    listed: dict[int, None] = {}
    seen: set[int] = set()
    n_searched = first
    while True:
        found = _merged(
            [
                find_candidates(
                    snapshot,
                    query,
                    n_papers=n_searched,
                    allowed=allowed,
                    among=among.get(facets),
                    exact=not several,
                )
                for facets, query in queries.items()
            ],
            n_searched,
        )
        ordered = _by_vectors_and_words(found, shared, n_searched, allowed, quoted)
        new = [position for position in dict.fromkeys([*titled, *ordered]) if position not in seen]
        seen.update(new)
        listed.update(dict.fromkeys(_without(snapshot, new, same)))
        # Fewer papers than requested: there are no more.
        if len(listed) >= n_papers or len(seen) < n_searched:
            return list(listed)[:n_papers]
        n_searched *= _DEEPER


def _by_vectors_and_words(
    found: Sequence[Candidate],
    shared: SharedWords | None,
    n_searched: int,
    allowed: Bool[np.ndarray, " n_papers"],
    quoted: Sequence[Sequence[int]],
) -> list[int]:
    """Return the positions of the papers ``found`` by vectors and of those found by words, nearest first.

    A paper found only by words is no nearer by vectors than the last paper found by them, so it gets the
    score of that paper. Papers with the ``quoted`` phrases, one list per phrase, and those with the rarest
    words take turns in the places reserved for them.
    """
    if shared is None or not found:
        return [each.position for each in found]
    near = np.array([each.position for each in found], dtype=np.int64)
    by_words = shared.nearest(n_searched // _VECTORS_TO_WORDS, allowed)
    positions = np.concatenate([near, by_words[~np.isin(by_words, near)]])
    scores = np.full(len(positions), found[-1].score)
    scores[: len(near)] = [each.score for each in found]
    scores += shared.weight * shared.cosines(positions)
    ordered: list[int] = positions[np.lexsort((positions, -scores))].tolist()
    n_rare = n_searched // _ALL_TO_RARE
    turns = chain.from_iterable(zip_longest(*quoted, shared.rarest(n_rare, allowed)))
    rare = islice((position for position in turns if position is not None), n_rare * (1 + len(quoted)))
    listed: dict[int, None] = {}
    for number, position in enumerate(ordered, start=1):
        listed[position] = None
        if number % _ALL_TO_RARE == 0:
            listed.update(dict.fromkeys(islice(rare, 1)))
    return list(listed | dict.fromkeys(rare))


def _with_phrases(
    snapshot: Snapshot, shared: SharedWords, allowed: Bool[np.ndarray, " n_papers"]
) -> Iterator[list[int]]:
    """Yield, for each phrase that the query quotes, the papers with the phrase, nearest by words first.

    Raises DeadlineError.
    """
    for quoted in shared.phrases:
        check_deadline()
        phrase = plain(quoted)
        having: list[int] = []
        positions = shared.with_words_of(quoted, _TEXTS_READ // len(shared.phrases), allowed)
        for batch in np.split(positions, range(_TEXTS_AT_ONCE, len(positions), _TEXTS_AT_ONCE)):
            check_deadline()
            texts = (snapshot.values(name, batch) for name in ("title", "abstract"))
            for position, title, abstract in zip(batch.tolist(), *texts, strict=True):
                if phrase in plain(title) or phrase in plain(abstract):
                    having.append(position)
        yield having


def find_candidates(
    snapshot: Snapshot,
    query: Float32[np.ndarray, "n_query dim"],
    *,
    n_papers: int,
    allowed: Bool[np.ndarray, " n_papers"],
    among: Bool[np.ndarray, " n_rows"] | None = None,
    exact: bool = True,
    at_once: int = ALL_AT_ONCE,
) -> list[Candidate]:
    """Return the ``n_papers`` allowed papers nearest by single match, best first; fewer if fewer are allowed.

    A paper's score is -min over (query sentence, paper sentence) of L2. The search widens until there are
    enough papers. If ``exact``, the list equals that of an unlimited search: a paper absent from the rows
    nearest to any sentence is farther than the last of them. If not, every sentence has its own hits. Up to
    ``at_once`` distances are all requested at once. Ties are broken by position. Raises DeadlineError.
    """
    n_allowed = int(np.count_nonzero(allowed))
    wanted = min(n_papers, n_allowed)
    if wanted == 0:
        return []
    n_dropped = len(allowed) - n_allowed
    # Many sentences with few hits each would find the same few again. A mask also skips segments away now.
    few = n_dropped <= (_FEW_PAPERS if exact else 0) and among is None and not snapshot.away
    allowed_rows = None if few else snapshot.rows_of_papers(allowed)
    if among is not None:
        allowed_rows &= among
    n_rows = snapshot.n_rows if allowed_rows is None else int(np.count_nonzero(allowed_rows))
    if exact and n_rows * len(query) <= at_once:
        n_hits = n_rows
    elif exact:
        n_hits = (wanted + (n_dropped if few else 0)) * _HITS_PER_PAPER
    else:
        n_hits = max(_MIN_HITS, _HITS_OF_ALL * wanted // len(query))
    while True:
        n_hits = min(n_hits, n_rows)
        papers, scores, unseen = _nearest(snapshot, query, n_hits, allowed_rows, together=exact)
        papers, scores = papers[allowed[papers]], scores[allowed[papers]]
        # Each batch of sentences has its own end, at which papers with equal scores may be missing.
        beyond = np.greater if len(query) > _BATCH else np.greater_equal
        enough = len(papers) >= wanted and (not exact or bool(beyond(scores[wanted - 1], unseen)))
        if enough or n_hits == n_rows:
            pairs = zip(papers[:wanted].tolist(), scores[:wanted].tolist(), strict=True)
            return [Candidate(paper, score) for paper, score in pairs]
        n_hits *= _WIDEN


def _nearest(
    snapshot: Snapshot,
    query: Float32[np.ndarray, "n_query dim"],
    n_hits: int,
    allowed_rows: Bool[np.ndarray, " n_rows"] | None,
    *,
    together: bool,
) -> tuple[Int64[np.ndarray, " k"], Float32[np.ndarray, " k"], float]:
    """Return papers and scores of the hits of all sentences (``together``) or each; a bound on the rest."""
    papers, scores, unseen = [], [], -np.inf
    for start in range(0, len(query), _BATCH):
        check_deadline()
        batch = query[start : start + _BATCH]
        hits = snapshot.index.search(batch, n_hits, together=together, allowed=allowed_rows)
        found = hits.rows >= 0
        papers.append(snapshot.paper_of_row[hits.rows[found]])
        scores.append(hits.scores[found])
        # The end of a full list bounds what the list left out; a list that is not full left nothing out.
        unseen = max(unseen, float(np.max(np.where(found[:, -1], hits.scores[:, -1], -np.inf))))
    return *best_of_owners(np.concatenate(papers), np.concatenate(scores)), unseen


def _by_rows(
    parts: Sequence[Part], strategy: Strategy
) -> dict[tuple[Facet, ...], Float32[np.ndarray, "n_query dim"]]:
    """Return the vectors to search for, by the facets of the sentences that they are compared with."""
    seeds = [part for part in parts if not part.away]
    per_seed = max(_MAX_SENTENCES // len(seeds), 1)
    groups: dict[tuple[Facet, ...], list[Part]] = {}
    for part in seeds:
        groups.setdefault(part.beside, []).append(part)
    return {facets: _central_sentences(own, strategy, per_seed) for facets, own in groups.items()}


def _central_sentences(
    seeds: Sequence[Part], strategy: Strategy, per_seed: int
) -> Float32[np.ndarray, "n_query dim"]:
    """Return the vectors to search for: the sentences of the seeds, or the mean of the seeds for ``ALL``."""
    if strategy is Strategy.ALL and len(seeds) > 1:
        means = [part.vectors.mean(axis=0) for part in seeds]
        mean = np.average(means, axis=0, weights=[part.weight for part in seeds])
        return mean[None].astype(np.float32)
    return np.concatenate([_central(part.vectors, per_seed) for part in seeds])


def _merged(lists: Sequence[Sequence[Candidate]], n_papers: int) -> list[Candidate]:
    """Return the nearest papers of several lists, each paper once, with its best score."""
    if len(lists) == 1:
        return list(lists[0])
    best: dict[int, float] = {}
    for each in chain.from_iterable(lists):
        best[each.position] = max(each.score, best.get(each.position, each.score))
    nearest = sorted(best.items(), key=lambda found: (-found[1], found[0]))
    return [Candidate(position, score) for position, score in nearest[:n_papers]]


def _central(vectors: Float32[np.ndarray, "n_query dim"], n: int) -> Float32[np.ndarray, "n_central dim"]:
    """Return the ``n`` vectors nearest to the mean of all; all vectors if there are at most ``n``."""
    if len(vectors) <= n:
        return vectors
    distances = np.linalg.norm(vectors - vectors.mean(axis=0), axis=1)
    return vectors[np.sort(np.argsort(distances, kind="stable")[:n])]


def _without(snapshot: Snapshot, positions: list[int], same: set[str]) -> list[int]:
    """Return the ``positions`` of papers with neither a title nor an abstract worded as in ``same``."""
    if not same or not positions:
        return positions
    texts = (snapshot.values(name, np.array(positions)) for name in ("title", "abstract"))
    return [
        position
        for position, title, abstract in zip(positions, *texts, strict=True)
        if not same & {normalised_text(title), normalised_text(abstract)}
    ]
