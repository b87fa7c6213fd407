"""The client of a running service, for programs::

import akin

with akin.Client("http://127.0.0.1:8000") as client:
    for result in client.search(paper_id="demo:p03-m07", facet="method"):
        print(result.score, result.paper.title)
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Unpack, cast

from akin.client import requests
from akin.client.library import Files, looked_up, seeds_of, with_libraries
from akin.client.pagination import Pages
from akin.client.params import (
    DetailName,
    Draft,
    FacetName,
    Filters,
    ListFilters,
    MatchRequest,
    ScorerName,
    Seed,
    SentenceRequest,
    Unlike,
)
from akin.client.resources import Resources
from akin.client.responses.matches import ComparedPapers, MatchAnswer
from akin.client.responses.papers import Paper, PaperList, PapersAccepted, TitlesAnswer
from akin.client.responses.ranked import RecommendationsAnswer, SearchAnswer
from akin.client.responses.sentences import Analysis, SentenceAnswer
from akin.client.responses.vectors import Embedding, PaperVectorsAnswer
from akin.client.signatures import all_spelt
from akin.client.uploads import Papers


@all_spelt
class Client(Resources):
    """A client of the service at ``url``; use it in a ``with`` block, or ``close`` it. Threads may share it.

    ``key`` is an API key, where the service wants one; ``timeout_s`` bounds the wait for each answer. Every
    method raises ServiceError for what is no answer.
    """

    def search(
        self,
        paper_id: str | None = None,
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
        """Papers akin to one, best first: by its name, pasted (``title``, ``abstract``), or to a short text.

        ``facet``, or ``sentences`` by their numbers from 0, choose what of it counts; ``unlike`` says in what
        papers should differ. ``limit`` may be any number: lists are read page by page, and end after 10,000
        papers. ``cursor`` goes on where an answer ended.
        """
        params = requests.given(
            paper_id=paper_id,
            title=title,
            abstract=abstract,
            text=text,
            facet=facet,
            sentences=sentences,
            unlike=unlike,
            focus=focus,
            filters=filters,
            limit=limit,
            scorer=scorer,
            tau=tau,
            words=words,
            specificity=specificity,
            include=include,
            max_alignments=max_alignments,
            cursor=cursor,
        )
        return self._listed(Pages(requests.search, params))

    def recommend(
        self,
        seeds: str | Seed | Sequence[str | Seed] = (),
        *,
        like: Files | None = None,
        negatives: str | Seed | Sequence[str | Seed] = (),
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
        """Papers akin to several, best first: to ``seeds`` and to the papers of the library ``like``.

        Seeds are names of papers, or ``Seed``s with what counts of each; a library is a file as reference
        managers write it (``.bib``, ``.ris`` and others), or several. ``negatives`` and the library
        ``unlike`` are papers to keep away from. ``facet`` counts of every seed that chooses nothing itself.
        ``strategy``: papers similar to any of the seeds, or to what all of them share. ``limit``
        and ``cursor`` are as in ``search``.
        """
        params = requests.given(
            seeds=seeds_of(seeds),
            like=like,
            negatives=seeds_of(negatives) or None,
            unlike=unlike,
            facet=facet,
            strategy=strategy,
            negative_weight=negative_weight,
            filters=filters,
            limit=limit,
            words=words,
            specificity=specificity,
            include=include,
            max_alignments=max_alignments,
            cursor=cursor,
        )
        return self._listed(Pages(requests.recommend, looked_up(with_libraries(params), self.papers)))

    def search_sentences(
        self,
        text: str | None = None,
        *,
        paper_id: str | None = None,
        sentence: int | None = None,
        by: Literal["meaning", "function"] | None = None,
        facet: FacetName | Sequence[FacetName] | None = None,
        filters: Filters | None = None,
        limit: int = 10,
    ) -> SentenceAnswer:
        """The sentences nearest to one, which is a ``text`` or number ``sentence`` of a paper; 100 at most.

        Near are those that say the same or, by ``function``, do the same in their abstracts.
        """
        params = requests.given(
            text=text,
            paper_id=paper_id,
            sentence=sentence,
            by=by,
            facet=facet,
            filters=filters,
            limit=limit,
        )
        return self._send(requests.search_sentences(cast(SentenceRequest, params)))

    def embed(self, papers: Sequence[Draft]) -> Embedding:
        """The vectors of drafts, sentence by sentence and of the whole; at most 32."""
        return self._send(requests.embed(papers))

    def vectors(self, name: str) -> PaperVectorsAnswer:
        """The vectors of a paper's sentences as they are indexed, and that of the whole."""
        return self._send(requests.vectors(name))

    def compare(self, a: str | Seed, b: str | Seed) -> ComparedPapers:
        """Two papers side by side, each by name or pasted (``title`` and ``abstract``)."""
        return self._send(requests.compare(a, b))

    def match(
        self,
        submissions: Sequence[str | Seed],
        profiles: Mapping[str, Sequence[str] | None],
        **params: Unpack[MatchRequest],
    ) -> MatchAnswer:
        """How near profiles, sets of papers by name, are to submissions, and which to assign to which.

        Papers of ``None`` are those kept under the name.
        """
        return self._send(requests.match(submissions, profiles, params))

    def analyze(self, abstract: str | list[str], *, title: str = "") -> Analysis:
        """The sentences of an abstract and what each does."""
        return self._send(requests.analyze(title, abstract))

    def paper(self, paper_id: str) -> Paper:
        """A paper of the collection."""
        return self._send(requests.paper(paper_id)).paper

    def papers(self, names: Sequence[str]) -> tuple[Paper | None, ...]:
        """The papers with these ids, DOIs, arXiv ids, addresses or titles, at most 500, in this order."""
        return self._send(requests.papers(names)).papers

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
        """The first ``limit`` papers that pass filters, in the order in which they came, and their number.

        Years are inclusive; of several names any one suffices. ``next_cursor`` of the answer, given as
        ``cursor`` with the same filters, leads to those behind.
        """
        params = requests.given(
            limit=limit,
            cursor=cursor,
            year_from=year_from,
            year_to=year_to,
            venues=venues,
            fields=fields,
            authors=authors,
            has_facets=has_facets,
        )
        return self._listed(Pages(requests.list_papers, params))

    def count_papers(self, **filters: Unpack[ListFilters]) -> int:
        """How many papers pass filters, which are those of ``list_papers``."""
        return self.list_papers(limit=1, **filters).total

    def find_papers(self, title: str, *, limit: int = 10) -> TitlesAnswer:
        """Papers by a title as it is remembered, misspelt or cut short, the most alike first."""
        return self._send(requests.find_papers(title, limit))

    def add(self, papers: Papers, *, wait: bool = False) -> PapersAccepted:
        """Add papers, or replace those with their ids: all, or none; at most 1,000.

        Each is a dictionary, or a file of papers of any format, of which entries that cannot be used are
        skipped with a warning; one may stand by itself.

        With ``wait`` they are in answers when this returns, unless that takes more than five seconds.
        """
        return self._send(requests.add(papers, wait=wait))

    def delete(self, paper_id: str | Sequence[str]) -> None:
        """Delete a paper, or several, one after the other; nothing happens where there is none."""
        for each in requests.ids_of(paper_id):
            self._send(requests.delete(each))
