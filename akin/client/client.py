"""The client of a running service, for programs::

import akin

with akin.Client("http://127.0.0.1:8000") as client:
    for result in client.search(paper_id="demo:p09-m05", facet="method"):
        print(result.score, result.paper.title)
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, cast

from akin.client import requests
from akin.client.library import Files, looked_up, seeds_of, with_libraries
from akin.client.pagination import Pages
from akin.client.params import (
    Assign,
    DetailName,
    Draft,
    FacetName,
    Filters,
    MatchRequest,
    Profiles,
    ScorerName,
    SeedLike,
    Seeds,
    SentenceRequest,
    Submissions,
    Unlike,
    ids_of,
)
from akin.client.resources import Resources
from akin.client.responses.matches import ComparedPapers, MatchAnswer
from akin.client.responses.papers import Paper, PaperList, PapersAccepted, TitlesAnswer
from akin.client.responses.ranked import PaperLike, RecommendationsAnswer, SearchAnswer
from akin.client.responses.sentences import Analysis, SentenceAnswer
from akin.client.responses.vectors import Embedding, PaperVectorsAnswer
from akin.client.signatures import all_spelt
from akin.client.uploads import Papers


@all_spelt
class Client(Resources):
    """A client of the service at ``url``; use it in a ``with`` block, or ``close`` it. Threads may share it.

    ``key`` is an API key, if the service requires one; ``timeout_s`` is the longest wait for a connection and
    for the next data of a response, in each attempt (``None``: no limit).
    Every method raises ServiceError if the service refuses the request or does not respond.
    """

    def search(
        self,
        paper_id: PaperLike | None = None,
        *,
        title: str | None = None,
        abstract: str | Sequence[str] | None = None,
        text: str | None = None,
        facet: FacetName | Sequence[FacetName] | None = None,
        sentences: Sequence[int] | None = None,
        unlike: Unlike | None = None,
        focus: float | None = None,
        filters: Filters | None = None,
        limit: int = 10,
        scorer: ScorerName | None = None,
        tau: float | None = None,
        words: float | None = None,
        specificity: float | None = None,
        include: Sequence[DetailName] | None = None,
        max_alignments: int | None = None,
        cursor: str | None = None,
    ) -> SearchAnswer:
        """Find papers similar to one, best first: give its name, ``title`` and ``abstract``, or a short text.

        ``facet``, or ``sentences`` by number from 0, restrict the search to parts of the query; ``unlike``
        names parts in which results should differ. ``limit`` may be any number: pages are fetched as needed,
        up to 10,000 papers. ``cursor`` continues after the last result of an earlier answer.
        """
        params = requests.given(**locals())
        return self._listed(Pages(requests.search, params))

    def recommend(
        self,
        seeds: Seeds = (),
        *,
        like: Files | None = None,
        negatives: Seeds = (),
        unlike: Files | None = None,
        facet: FacetName | Sequence[FacetName] | None = None,
        strategy: Literal["any", "all"] | None = None,
        negative_weight: float | None = None,
        filters: Filters | None = None,
        limit: int = 10,
        words: float | None = None,
        specificity: float | None = None,
        include: Sequence[DetailName] | None = None,
        max_alignments: int | None = None,
        cursor: str | None = None,
    ) -> RecommendationsAnswer:
        """Find papers similar to several, best first: ``seeds`` and the papers of the library ``like``.

        Seeds are names of papers, or ``Seed``s with the parts that count; a library is one or several files
        of a reference manager (``.bib``, ``.ris`` and others). Results should be unlike ``negatives`` and the
        papers of the library ``unlike``. ``facet`` applies to every seed that does not choose a part itself.
        ``strategy``: similar to any of the seeds, or to what all of them share. ``limit`` and ``cursor`` are
        as in ``search``. Raises InputError if there is no seed.
        """
        params = requests.given(
            **{**locals(), "seeds": seeds_of(seeds), "negatives": seeds_of(negatives) or None}
        )
        return self._listed(Pages(requests.recommend, looked_up(with_libraries(params), self.papers)))

    def search_sentences(
        self,
        text: str | None = None,
        *,
        paper_id: PaperLike | None = None,
        sentence: int | None = None,
        by: Literal["meaning", "function"] | None = None,
        facet: FacetName | Sequence[FacetName] | None = None,
        filters: Filters | None = None,
        limit: int = 10,
    ) -> SentenceAnswer:
        """Find the sentences nearest to a ``text``, or to number ``sentence`` of a paper; at most 100.

        ``by`` compares them by meaning, or by rhetorical function.
        """
        params = requests.given(**locals())
        return self._send(requests.search_sentences(cast(SentenceRequest, params)))

    def embed(self, papers: Draft | Iterable[Draft]) -> Embedding:
        """Return the vectors of at most 32 drafts: one for each sentence, and one for the whole draft.

        The drafts have at most 1,000 sentences together.
        """
        return self._send(requests.embed(papers))

    def vectors(self, name: PaperLike) -> PaperVectorsAnswer:
        """Return the stored vectors of a paper: one for each sentence, and one for the whole paper."""
        return self._send(requests.vectors(name))

    def compare(self, a: SeedLike, b: SeedLike) -> ComparedPapers:
        """Compare two papers, each given by name or pasted (``title`` and ``abstract``)."""
        return self._send(requests.compare(a, b))

    def match(
        self,
        submissions: Submissions,
        profiles: Profiles,
        *,
        conflicts: Sequence[tuple[int, str]] | None = None,
        quotas: Mapping[str, int] | None = None,
        assign: Assign | None = None,
        limit: int | None = None,
        reasons: int | None = None,
        nearest: int | None = None,
        own_conflicts: bool | None = None,
    ) -> MatchAnswer:
        """Find the nearest ``profiles`` of each submission; a profile is a set of papers with a name.

        ``None`` for the papers of a profile means the saved profile with that name. ``conflicts`` are pairs
        of the number of a submission and the name of a profile. ``assign`` says whether, and how, to assign
        profiles; ``quotas`` are the maximum numbers of submissions by name. ``limit`` is the number of
        profiles listed for each submission, ``reasons`` the number of papers listed for each of these, and
        ``nearest`` the number of a profile's papers that count for its affinity.
        """
        params = requests.given(
            conflicts=conflicts,
            quotas=quotas,
            assign=assign,
            limit=limit,
            reasons=reasons,
            nearest=nearest,
            own_conflicts=own_conflicts,
        )
        return self._send(requests.match(submissions, profiles, cast(MatchRequest, params)))

    def analyze(self, abstract: str | Sequence[str], *, title: str = "") -> Analysis:
        """Split an abstract into sentences, and return each with its facet."""
        return self._send(requests.analyze(title, abstract))

    def paper(self, paper_id: PaperLike) -> Paper:
        """Return a paper of the collection."""
        return self._send(requests.paper(paper_id)).paper

    def papers(self, names: PaperLike | Iterable[PaperLike]) -> tuple[Paper | None, ...]:
        """Return the papers with these ids, DOIs, arXiv ids, URLs or titles, at most 500, in this order.

        A name that no paper has gives ``None``.
        """
        given = ids_of(names)
        return self._send(requests.papers(given)).papers if given else ()

    def list_papers(
        self,
        *,
        limit: int = 100,
        cursor: str | None = None,
        year_from: int | None = None,
        year_to: int | None = None,
        venues: Sequence[str] | None = None,
        fields: Sequence[str] | None = None,
        authors: Sequence[str] | None = None,
        has_facets: Sequence[FacetName] | None = None,
    ) -> PaperList:
        """Return the first ``limit`` papers that match the filters, in the order of addition, and the total.

        Years are inclusive; one of several names has to match. To get the next papers, give ``next_cursor``
        of the answer as ``cursor``, with the same filters.
        """
        params = {"limit": 100, **requests.given(**locals())}
        return self._listed(Pages(requests.list_papers, params))

    def count_papers(
        self,
        *,
        year_from: int | None = None,
        year_to: int | None = None,
        venues: Sequence[str] | None = None,
        fields: Sequence[str] | None = None,
        authors: Sequence[str] | None = None,
        has_facets: Sequence[FacetName] | None = None,
    ) -> int:
        """Return the number of papers that match the filters, which are those of ``list_papers``."""
        return self.list_papers(limit=1, **requests.given(**locals())).total

    def find_papers(self, title: str, *, limit: int = 10) -> TitlesAnswer:
        """Find papers by ``title``, which may be misspelt, shortened or only some words of it, best first."""
        return self._send(requests.find_papers(title, limit))

    def add(self, papers: Papers, *, wait: bool = False) -> PapersAccepted:
        """Add up to 1,000 papers, or replace those with the same ids; either all are added or none.

        Give a dictionary, a file of papers in any format, or a list of these. Entries of a file that cannot
        be used are skipped with a warning.

        With ``wait``, the papers are searchable when this returns, unless that takes more than five seconds.
        """
        return self._send(requests.add(papers, wait=wait))

    def delete(self, paper_id: PaperLike | Iterable[PaperLike]) -> None:
        """Delete one paper or several; ids that the collection does not have are ignored."""
        for each in ids_of(paper_id):
            self._send(requests.delete(each))
