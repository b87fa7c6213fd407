"""Rankings of one collection by several systems, which share work that they have in common."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64, Int64

from evaluation.baselines.lexical import Bm25, TfIdf, Words, paper_text, words
from evaluation.baselines.word_vectors import WordVectors, train
from evaluation.collection import Collection, EvalQuery
from evaluation.run import PaperScores, Run
from evaluation.systems.dense import explain, picks_sentences, query_vectors, query_words, score_pool
from evaluation.systems.system import (
    DENSE,
    TEXT_SYSTEMS,
    Choice,
    DenseSystem,
    TextSystem,
    VectorSystem,
    parse,
)
from evaluation.systems.tagged import has_facet, in_facet, tag_queries
from evaluation.systems.vectors import CollectionVectors, VectorSource, encode_collection
from indexer.words.collection import CollectionWords
from indexer.words.file import words_of
from models.annotator import Annotator
from models.checksums import hash64
from models.errors import InputError, UnknownNameError
from models.facets import FacetTagger, load_tagger
from models.text.words import count_words
from models.transport import SERVING, Scorer, TransportSettings
from models.types import EncoderSpec, Facet, RankedPaper, Unit
from service.search.aspect import default_specificity, specificity_weights
from service.search.rerank import SAMPLE_PAPERS, default_tau
from service.search.words import QueryVectors, default_weight

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

# How many papers a run keeps for a short text that ranks the whole collection; TREC's depth. If papers rank a
# collection, the measures cover all of it (semantics 3.7).
DEPTH = 1_000
TextScorer = Bm25 | TfIdf | WordVectors
# Scores the papers at some positions of the collection; -inf leaves a paper out.
PoolScorer = Callable[[EvalQuery, Int64[np.ndarray, " k"]], Float64[np.ndarray, " k"]]


class Systems:
    """The systems that rank ``collection``; what several of them need is computed once.

    ``open_source`` opens an encoder's vectors by its name, and is called once per encoder. ``tau`` is the
    temperature of the marginals and ``words`` the weight of shared words in systems that use them, both in
    units of distance; ``specificity`` is how much specific sentences count there (None: the service's value
    for the encoder). ``open_tagger`` loads the tagger that fits an encoder.
    """

    def __init__(
        self,
        collection: Collection,
        open_source: Callable[[str], VectorSource],
        *,
        tau: float | None = None,
        words: float | None = None,
        specificity: float | None = None,
        open_tagger: Callable[[EncoderSpec], FacetTagger] = load_tagger,
    ) -> None:
        self.collection = collection
        self._open_source = open_source
        self._tau = tau
        self._weight = words
        self._specificity = specificity
        self._ids = tuple(collection.papers)
        self._position = {paper_id: i for i, paper_id in enumerate(self._ids)}
        self._sources: dict[str, VectorSource] = {}
        self._vectors: dict[tuple[str, bool], CollectionVectors] = {}
        self._texts: dict[str, TextScorer] = {}
        self._open_tagger = open_tagger
        self._tagged_queries: dict[str, dict[str, EvalQuery]] = {}

    def names(self, encoders: Sequence[str], *, scorers: Sequence[Scorer] = tuple(Scorer)) -> list[str]:
        """Return the distinct systems that these encoders and scorers allow on the collection.

        If no query selects sentences, systems that differ only in how they use the selection are left out.
        """
        selects = any(query.selected is not None for query in self.collection.queries)
        names = [str(TextSystem(method)) for method in TEXT_SYSTEMS]
        names += [str(TextSystem(method, facet=True)) for method in TEXT_SYSTEMS if selects]
        for encoder in encoders:
            for dense in DENSE.values():
                plain = selects or dense.choice is Choice.SELECTED
                wanted = dense.scorer is None or dense.scorer in scorers
                if plain and wanted and not self._obstacle(encoder, dense):
                    names.append(str(VectorSystem(encoder, dense)))
        return names

    def rank(self, system: str) -> Run:
        """Return the run of a system, without the queries that it cannot answer.

        A short text that ranks the whole collection keeps its best 1,000 papers; no query keeps its own
        paper. Raises UnknownNameError, or InputError for a system that the encoder or its vectors do not
        allow.
        """
        scorer = self._scorer(system)
        ranked = ((query.id, self._rank(query, scorer)) for query in self.collection.queries)
        return Run(system, {query_id: scores for query_id, scores in ranked if scores})

    def source(self, encoder: str) -> VectorSource:
        """Return the vectors of an encoder, opened once."""
        if encoder not in self._sources:
            self._sources[encoder] = self._open_source(encoder)
        return self._sources[encoder]

    def has_plan(self, run: Run) -> bool:
        """Whether ``run`` is from a system here with plans that can be shown."""
        try:
            system = parse(run.system)
        except UnknownNameError:
            return False
        return isinstance(system, VectorSystem) and system.has_plan

    def explain(self, run: Run, query: EvalQuery, *, limit: int) -> tuple[RankedPaper, ...]:
        """Return the best ``limit`` papers of ``query`` in a run of these systems, with their alignments.

        Empty if the system has no plan that can be shown, such as one of words or document vectors.
        """
        system = parse(run.system)
        if isinstance(system, TextSystem) or not system.has_plan:
            return ()
        encoder, dense = system.encoder, system.dense
        best = run.ranking(query.id)[:limit]
        ranked = {self._position[paper_id]: self.collection.papers[paper_id] for paper_id in best}
        vectors = self._encoded(encoder, dense)
        words = self._query_words(encoder, dense, query)
        return explain(
            dense,
            vectors,
            query,
            ranked,
            settings=self._settings(encoder, text=words is not None and query.is_text),
            words=words,
            log_weights=self._log_weights(encoder, dense, query),
        )

    def _rank(self, query: EvalQuery, scorer: PoolScorer) -> PaperScores:
        pool = query.pool or self._ids
        # Judged papers that the collection lacks cannot be ranked; the reader's notes count them.
        ranked = [self._position[i] for i in pool if i in self._position and query.ranks(i)]
        positions = np.array(ranked, dtype=np.int64)
        scores = scorer(query, positions)
        kept = np.flatnonzero(scores > -np.inf)
        if query.is_text and not query.pool:
            names = np.array([self._ids[i] for i in positions[kept]])
            kept = kept[np.lexsort((names, -scores[kept]))[:DEPTH]]
        return PaperScores(self._ids, positions[kept], scores[kept])

    def _scorer(self, name: str) -> PoolScorer:
        system = parse(name)
        return self._by_text(system) if isinstance(system, TextSystem) else self._by_vectors(system)

    def _by_text(self, system: TextSystem) -> PoolScorer:
        if system.method not in self._texts:
            self._texts[system.method] = self._text_scorer(system.method)
        scorer = self._texts[system.method]

        def score(query: EvalQuery, positions: Int64[np.ndarray, " k"]) -> Float64[np.ndarray, " k"]:
            query_words = words(paper_text(query.paper, query.selected if system.facet else None))
            return scorer.scores(query_words)[positions] if query_words else np.full(len(positions), -np.inf)

        return score

    def _text_scorer(self, name: str) -> TextScorer:
        if name == "bm25":
            return Bm25(self._documents)
        if name == "tfidf":
            return TfIdf(self._documents)
        return WordVectors(self._documents, self._word_vectors, weighted=name.endswith("tfidf"))

    @cached_property
    def _documents(self) -> list[Words]:
        return [words(paper_text(paper)) for paper in self.collection.papers.values()]

    @cached_property
    def _word_vectors(self) -> "KeyedVectors":
        return train(self._documents)

    def _by_vectors(self, system: VectorSystem) -> PoolScorer:
        encoder, dense = system.encoder, system.dense
        if obstacle := self._obstacle(encoder, dense):
            raise InputError(f"{system} cannot be computed: {obstacle}")
        vectors = self._encoded(encoder, dense)
        queries = self._tagged(encoder) if dense.tagged else {}
        of_facet: dict[str, CollectionVectors] = {}

        def score(query: EvalQuery, positions: Int64[np.ndarray, " k"]) -> Float64[np.ndarray, " k"]:
            tagged = queries.get(query.id, query)
            words = self._query_words(encoder, dense, tagged)
            settings = self._settings(encoder, text=dense.words and query.is_text)
            weights = self._log_weights(encoder, dense, tagged)
            beside = vectors
            if dense.same_facet and has_facet(query):
                if query.facet not in of_facet:
                    rows = in_facet(vectors.papers, self.collection.papers.values(), Facet(query.facet))
                    of_facet[query.facet] = replace(vectors, papers=rows)
                beside = of_facet[query.facet]
            return score_pool(
                dense, beside, tagged, positions, settings=settings, words=words, log_weights=weights
            )

        return score

    @cached_property
    def _words(self) -> CollectionWords:
        papers = self.collection.papers.values()
        counted = words_of(count_words(paper.title, paper.abstract) for paper in papers)
        return CollectionWords([counted], [np.ones(len(papers), dtype=bool)])

    def _query_words(self, encoder: str, system: DenseSystem, query: EvalQuery) -> QueryVectors | None:
        """Return the query's words with the collection's statistics; ``None`` if words do not count."""
        if not system.words:
            return None
        usual = default_weight(self.source(encoder).encoder.spec)
        weight = usual if self._weight is None else self._weight
        return QueryVectors(self._words, [query_words(query, system.choice)], weight=weight)

    def _log_weights(
        self, encoder: str, system: DenseSystem, query: EvalQuery
    ) -> Float64[np.ndarray, " n_query"] | None:
        """Return log weights of the query's sentences by specificity, against a sample of the collection."""
        if not system.words or picks_sentences(query, system.choice):
            return None
        usual = default_specificity(self.source(encoder).encoder.spec)
        vectors = self._encoded(encoder, system)
        encoded = np.flatnonzero(np.diff(vectors.papers.offsets))
        apart = self._position.get(query.paper.id)
        sample = sorted(encoded.tolist(), key=lambda i: hash64(self._ids[i]))[:SAMPLE_PAPERS]
        rows, offsets = vectors.papers.gather(np.array([i for i in sample if i != apart], dtype=np.int64))
        return specificity_weights(
            query_vectors(query, vectors.queries[query.id], system.choice),
            rows,
            offsets,
            specificity=usual if self._specificity is None else self._specificity,
        )

    def _encoded(self, encoder: str, system: DenseSystem) -> CollectionVectors:
        key = (encoder, system.alone)
        if key not in self._vectors:
            source = self.source(encoder)
            self._vectors[key] = encode_collection(self.collection, source, alone=system.alone)
        return self._vectors[key]

    def _tagged(self, encoder: str) -> dict[str, EvalQuery]:
        if encoder not in self._tagged_queries:
            loaded = self.source(encoder).encoder
            annotator = Annotator(loaded, tagger=self._open_tagger(loaded.spec))
            self._tagged_queries[encoder] = tag_queries(self.collection.queries, annotator)
        return self._tagged_queries[encoder]

    def _settings(self, encoder: str, *, text: bool = False) -> TransportSettings:
        """Return the transport settings; ``text`` is for a short text with words that count."""
        usual = default_tau(self.source(encoder).encoder.spec, text=text)
        tau = usual if self._tau is None else self._tau
        return replace(SERVING, tau=tau)

    def _obstacle(self, encoder: str, system: DenseSystem) -> str:
        """Return why an encoder's vectors do not allow ``system``; empty if they do."""
        source = self.source(encoder)
        if source.encoder.spec.unit is Unit.DOCUMENT:
            return (
                "" if system.scorer is None else f"{encoder} gives one vector a paper; use {encoder}:document"
            )
        if system.scorer is None and source.snapshot is not None:
            return "a snapshot holds no document vectors; leave out --data"
        if (system.tagged or system.same_facet) and not any(map(has_facet, self.collection.queries)):
            named = "tagged" if system.tagged else "same-facet"
            return f"no query of {self.collection.name} names a facet; leave out :{named}"
        return ""
