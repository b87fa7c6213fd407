"""Indexing, queries and storage of one collection with the default encoder: goals P5 to P8."""

import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import faiss
import numpy as np
import torch

from benchmarks.suite import stages, storage
from benchmarks.suite.backends import FlatAlone, faiss_threads, synthetic
from benchmarks.suite.encoders import NAIVE_BATCH, one_minus_cosine, read_papers
from benchmarks.suite.rows import OURS, Row, beside, in_turns, installed, seconds_of
from benchmarks.suite.txtai_engine import TxtaiEngine, encoded
from indexer.collection.build import build
from indexer.encoding.arguments import BuildArguments
from indexer.index.vector_index import build_index, choose_backend
from models.annotator import Annotator, load_annotator
from models.encoder import Encoder
from models.encoders.contextual import MAX_TOKENS
from models.types import Paper, ignore_progress
from service.collection.generations import open_engine
from service.resolve.text_query import one_sentence
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from service.settings import Settings

LIMIT, QUERIES = 10, 100
_COMPARED = 64
_HITS, _FEWER_HITS = 500, 402  # rows that a search asks the index for, with words and without
_INDEX, _FEWER, _FLAT = "the index alone", "the index alone, as many rows", "FAISS Flat alone"
_ENCODER = "the encoder alone"
_TXTAI = "txtai, hybrid, the same encoder"
_BARE = "search by id without words and explanation"
_GOAL_PAPERS = 100_000  # the goals of a search by id are for 250,000
_BUILT_ROWS = 200_000  # the smallest collections with an index have more than half as many
_AFFORDABLE = 1_000  # up to this many papers are indexed three times


def rows(corpus: Path, n_papers: int, *, threads: int) -> Iterator[Row]:
    """Yield the rows of a collection of the first ``n_papers`` of ``corpus``, in a temporary folder."""
    torch.set_num_threads(threads)
    faiss.omp_set_num_threads(threads)
    annotator = load_annotator("minilm", device="cpu")
    papers = read_papers(corpus, n_papers)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        yield from _indexing(annotator, papers, data)
        engine = open_engine(Settings(data=data, device="cpu"))
        engine.warm_up()
        yield from queries(engine, papers)
        with every_core() as n_cores:
            yield from by_text(engine, papers[:QUERIES], f"among {len(papers):,} papers, {n_cores} threads")
        yield from stages.rows(engine, papers)
        yield from stages.of_pages(engine, data, [paper.id for paper in papers])
        yield from storage.on_disk(engine, data)
        yield from storage.in_memory(engine, data)
    yield from storage.cold_reads()


@contextmanager
def every_core() -> Iterator[int]:
    """Let the encoder and the index use every core; yield how many there are."""
    before, n_cores = torch.get_num_threads(), len(os.sched_getaffinity(0))
    torch.set_num_threads(n_cores)
    try:
        with faiss_threads(n_cores):
            yield n_cores
    finally:
        torch.set_num_threads(before)


def _indexing(annotator: Annotator, papers: Sequence[Paper], data: Path) -> Iterator[Row]:
    """Compare indexing with the encoder alone, and with a straightforward program."""
    corpus = data.parent / "papers.jsonl"
    with corpus.open("w", encoding="utf-8") as stream:
        for paper in papers:
            kept = {"id": paper.id, "title": paper.title, "abstract": paper.abstract}
            stream.write(json.dumps(kept) + "\n")
    arguments = BuildArguments(encoder="minilm", device="cpu")

    def indexed() -> None:
        shutil.rmtree(data, ignore_errors=True)
        build([corpus], data, annotator, arguments=arguments, on_progress=ignore_progress)

    encoder = annotator.encoder
    encoder.encode(papers[:64])
    actions = {OURS: indexed, _ENCODER: partial(encoder.encode, papers)}
    peers, apart = [(_ENCODER, "P7", 0.9)], ""
    if installed("sentence-transformers"):
        theirs, apart = _by_sentence_transformers(encoder, papers)
        actions["sentence-transformers, batches of 32"] = theirs
        peers.append(("sentence-transformers, batches of 32", "P7", None))
    spent = in_turns(actions, rounds=3 if len(papers) <= _AFFORDABLE else 1, warm=False)
    for peer, goal, least in peers:
        yield beside(
            spent,
            peer,
            goal=goal,
            what=f"index {len(papers):,} papers",
            scale=1000 / len(papers),
            unit="ms a paper",
            least=least,
            note="reads, splits, tags, stores and indexes too" if least else apart,
        )
    yield from stages.before_encoding(encoder, papers, spent[OURS])
    yield from _building(data, papers, spent)


def _building(data: Path, papers: Sequence[Paper], spent: Mapping[str, Sequence[float]]) -> Iterator[Row]:
    """Give the share of indexing that building the index takes; a small collection is searched without one.

    Then an index of ``_BUILT_ROWS`` made-up rows is built, and compared with indexing as many sentences.
    """
    whole = statistics.median(spent[OURS])
    vectors = [np.load(file, mmap_mode="r") for file in data.rglob("vectors.npy")]
    what = f"of indexing {len(papers):,} papers, building the index"
    if any(choose_backend(len(rows)) != "exact" for rows in vectors):
        built_s = seconds_of(lambda: [build_index(rows, "auto", device="cpu") for rows in vectors])
        yield Row("P7", what, "share", built_s / whole, most=0.05)
        return
    made, n_sentences = synthetic(_BUILT_ROWS, vectors[0].shape[1]), sum(map(len, vectors))
    built_s = seconds_of(lambda: build_index(made, "ivfpq", device="cpu"))
    yield Row(
        "P7",
        f"building an index of {_BUILT_ROWS:,} made-up rows, of indexing as many sentences",
        "share",
        built_s / _BUILT_ROWS / (whole / n_sentences),
        most=0.05,
        note=f"the {len(papers):,} papers are compared one by one, without an index",
    )


def _by_sentence_transformers(encoder: Encoder, papers: Sequence[Paper]) -> tuple[Callable[[], object], str]:
    """Encode the papers with sentence-transformers: same weights, one vector a paper, batches sorted by size.

    Also returns a note on how far its vectors are from ours for the whole papers; both networks read as many
    tokens of each.
    """
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - a peer

    from models.checkpoints.checkpoints import locate_checkpoint  # noqa: PLC0415

    model = SentenceTransformer(str(locate_checkpoint("minilm").folder), device="cpu")
    model.max_seq_length = MAX_TOKENS + 2
    texts = [f"{paper.title} {paper.abstract}" for paper in papers]
    encode = partial(model.encode, batch_size=NAIVE_BATCH, show_progress_bar=False)
    some = papers[:_COMPARED]
    own = np.array([each.document for each in encoder.encode(some)])
    apart = one_minus_cosine(own, np.asarray(encode(texts[:_COMPARED])))
    note = (
        f"documents alone, one vector each; 1 - cosine with our documents {np.median(apart):.0e} in the "
        f"median, {apart.max():.0e} at most: theirs pool title and abstract as one text"
    )
    return partial(encode, texts), note


def queries(engine: SearchEngine, papers: Sequence[Paper], how: str = "") -> Iterator[Row]:
    """Compare a search by id with its index call, and one of a given text with the encoder's call.

    The searches are for some of the ``papers``; txtai is compared if these are the whole collection. ``how``
    says in which state the collection is.
    """
    drawn = np.random.default_rng(0).choice(len(papers), min(QUERIES, len(papers)), replace=False).tolist()
    chosen = [papers[number] for number in drawn]
    among = f"among {len(engine.snapshot):,} papers{how}"
    yield from _by_id(engine, chosen, among)
    txtai = installed("txtai") and len(papers) == len(engine.snapshot)
    neighbour = TxtaiEngine(papers, encoded(papers, engine.annotator.encoder), hybrid=True) if txtai else None
    yield from by_text(engine, chosen, among, neighbour)


def _by_id(engine: SearchEngine, chosen: Sequence[Paper], among: str) -> Iterator[Row]:
    """Compare searches by id with the index alone.

    The goals P5 are for large collections, and count candidates and transport: no words, no explanation.
    """
    snapshot = engine.snapshot
    is_large = len(snapshot) >= _GOAL_PAPERS
    # In a large collection this takes seconds a paper, and candidates are compared with it apart.
    flat = None if is_large else FlatAlone.build(snapshot.gather(snapshot.positions)[0])
    ids: dict[str, list[float]] = {OURS: [], _BARE: [], _INDEX: [], _FEWER: [], _FLAT: []}
    for paper in chosen:
        vectors = snapshot.gather(np.array([snapshot.position(paper.id)]))[0]
        whole = SearchQuery((Seed(paper.id),), limit=LIMIT)
        bare = SearchQuery((Seed(paper.id),), limit=LIMIT, words=0.0, include=frozenset())
        actions = {
            OURS: partial(engine.search, whole),
            _BARE: partial(engine.search, bare),
            _INDEX: partial(snapshot.index.search, vectors, _HITS, together=True),
            _FEWER: partial(snapshot.index.search, vectors, _FEWER_HITS, together=True),
            **({_FLAT: partial(flat.search, vectors, _HITS)} if flat else {}),
        }
        _take_turns(actions, ids)
    for what, name, index, judged in (
        (f"search by id {among}", OURS, _INDEX, False),
        (f"{_BARE} {among}", _BARE, _FEWER, is_large),
    ):
        spent, most = {**ids, OURS: ids[name]}, 1.3 if judged else None
        yield beside(spent, index, goal="P5", what=what, inverted=True, most=most)
        if flat is not None:
            yield beside(spent, _FLAT, goal="P5", what=what, inverted=True)
        middle, last = (1000 * float(np.percentile(ids[name], q)) for q in (50, 95))
        yield Row("P5", f"{what}, median", "ms", middle, most=5.0 if judged else None)
        yield Row("P5", f"{what}, 95th percentile", "ms", last, most=7.0 if judged else None)


def by_text(
    engine: SearchEngine, chosen: Sequence[Paper], among: str, neighbour: TxtaiEngine | None = None
) -> Iterator[Row]:
    """Compare searches of pasted papers and by typed sentences with the encoder's call: goal P6."""
    encoder = engine.annotator.encoder
    pasted: dict[str, list[float]] = {OURS: [], _ENCODER: [], **({_TXTAI: []} if neighbour else {})}
    typed: dict[str, list[float]] = {OURS: [], _ENCODER: []}
    for paper in chosen:
        given = Paper("", paper.title, paper.abstract, paper.sentences)
        actions = {
            OURS: partial(engine.search, SearchQuery((Seed(paper=given),), limit=LIMIT)),
            _ENCODER: partial(encoder.encode, [given]),
            **({_TXTAI: partial(neighbour.search, given, LIMIT, encoder)} if neighbour else {}),
        }
        _take_turns(actions, pasted)
        words = paper.sentences[0].text
        actions = {
            OURS: partial(engine.search, SearchQuery((Seed(text=words),), limit=LIMIT)),
            _ENCODER: partial(encoder.encode, [one_sentence(words)]),
        }
        _take_turns(actions, typed)
    for what, spent in (("of a pasted paper", pasted), ("by a typed sentence", typed)):
        yield beside(spent, _ENCODER, goal="P6", what=f"search {what} {among}", inverted=True, most=1.3)
    if neighbour:
        yield beside(
            pasted,
            _TXTAI,
            goal="",
            what=f"search of a pasted paper {among}",
            inverted=True,
            note="it returns ids and scores only",
        )


def _take_turns(actions: Mapping[str, Callable[[], object]], spent: Mapping[str, list[float]]) -> None:
    """Run each action once, and add its seconds to ``spent``."""
    for name, seconds in in_turns(actions, rounds=1, warm=False).items():
        spent[name] += seconds
