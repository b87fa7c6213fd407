"""Indexing, queries and storage of one collection under the default encoder: goals P5 to P8."""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import faiss
import numpy as np
import torch

from benchmarks.suite.encoders import NAIVE_BATCH, read_papers
from benchmarks.suite.neighbour import Neighbour, encoded
from benchmarks.suite.rows import OURS, Row, beside, in_turns, installed
from indexer.collection.build import build
from indexer.encoding.arguments import BuildArguments
from indexer.index.vector_index import build_index
from models.annotator import Annotator, load_annotator
from models.types import Paper, unseen
from service.collection.generations import open_engine
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from service.settings import Settings

LIMIT, QUERIES = 10, 60
_TXTAI = "txtai, hybrid, the same encoder"
_PAGES_READ = 1_000  # papers of a cold query


def rows(corpus: Path, n_papers: int, *, threads: int) -> Iterator[Row]:
    """The rows of a collection of the first ``n_papers`` of ``corpus``, made in a folder of its own."""
    torch.set_num_threads(threads)
    faiss.omp_set_num_threads(threads)
    annotator = load_annotator("minilm", device="cpu")
    papers = read_papers(corpus, n_papers)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        yield from _indexing(annotator, papers, data)
        engine = open_engine(Settings(data=data, device="cpu"))
        engine.warm_up()
        yield from _queries(engine, papers)
        yield from _storage(engine, data)


def _indexing(annotator: Annotator, papers: Sequence[Paper], data: Path) -> Iterator[Row]:
    """What indexing takes beside the encoder alone, and beside what one would write first."""
    corpus = data.parent / "papers.jsonl"
    with corpus.open("w", encoding="utf-8") as stream:
        for paper in papers:
            kept = {"id": paper.id, "title": paper.title, "abstract": paper.abstract}
            stream.write(json.dumps(kept) + "\n")
    arguments = BuildArguments(encoder="minilm", device="cpu")

    def indexed() -> None:
        build([corpus], data, annotator, arguments=arguments, on_progress=unseen)

    encoder = annotator.encoder
    encoder.encode(papers[:64])
    actions = {OURS: indexed, "the encoder alone": partial(encoder.encode, papers)}
    peers = [("the encoder alone", "P7", 0.9)]
    if installed("sentence-transformers"):
        actions["sentence-transformers, batches of 32"] = _by_sentence_transformers(encoder, papers)
        peers.append(("sentence-transformers, batches of 32", "P7", None))
    spent = in_turns(actions, rounds=1, warm=False)
    for peer, goal, least in peers:
        yield beside(
            spent,
            peer,
            goal=goal,
            what=f"index {len(papers):,} papers",
            scale=1000 / len(papers),
            unit="ms a paper",
            least=least,
            note="reads, splits, tags, stores and indexes too"
            if least
            else "documents alone, one vector each",
        )


def _by_sentence_transformers(encoder: object, papers: Sequence[Paper]) -> partial[object]:
    """The same weights by sentence-transformers: one vector a paper, padded batches in the order of size."""
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - a peer

    from models.checkpoints.checkpoints import locate_checkpoint  # noqa: PLC0415

    model = SentenceTransformer(str(locate_checkpoint("minilm").folder), device="cpu")
    texts = [f"{paper.title} {paper.abstract}" for paper in papers]
    return partial(model.encode, texts, batch_size=NAIVE_BATCH, show_progress_bar=False)


def _queries(engine: SearchEngine, papers: Sequence[Paper]) -> Iterator[Row]:
    """A search by id beside its index call, and one of a pasted paper beside the encoder's call."""
    snapshot = engine.snapshot
    drawn = np.random.default_rng(0).choice(len(papers), QUERIES, replace=False).tolist()
    places = [snapshot.position(papers[number].id) for number in drawn]
    n_papers = len(snapshot)
    ids: dict[str, list[float]] = {OURS: [], "the index alone": [], "FAISS Flat alone": []}
    flat = build_index(snapshot.gather(snapshot.positions)[0].astype(np.float16), "flat", device="cpu")
    pasted: dict[str, list[float]] = {OURS: [], "the encoder alone": []}
    encoder = engine.annotator.encoder
    neighbour = None
    if installed("txtai"):
        neighbour, pasted[_TXTAI] = Neighbour(papers, encoded(papers, encoder), hybrid=True), []
    for number, place in zip(drawn, places, strict=True):
        paper = papers[number]
        vectors = snapshot.gather(np.array([place]))[0]
        asked = Paper("", paper.title, paper.abstract, paper.sentences)
        by_id = SearchQuery((Seed(paper.id),), limit=LIMIT)
        by_text = SearchQuery((Seed(paper=asked),), limit=LIMIT)
        for spent, actions in (
            (
                ids,
                {
                    OURS: partial(engine.search, by_id),
                    "the index alone": partial(snapshot.index.search, vectors, 300),
                    "FAISS Flat alone": partial(flat.search, vectors, 300),
                },
            ),
            (
                pasted,
                {
                    OURS: partial(engine.search, by_text),
                    "the encoder alone": partial(encoder.encode, [asked]),
                    **({_TXTAI: partial(neighbour.search, asked, LIMIT, encoder)} if neighbour else {}),
                },
            ),
        ):
            for name, seconds in in_turns(actions, rounds=1, warm=False).items():
                spent[name] += seconds
    among = f"among {n_papers:,} papers"
    p95 = 1000 * float(np.percentile(ids[OURS], 95))
    yield beside(
        ids,
        "the index alone",
        goal="P5",
        what=f"search by id {among}",
        inverted=True,
        most=1.3,
        note=f"p95 {p95:.1f} ms; words, facets and the explanation are in ours",
    )
    yield Row("P5", f"search by id {among}, median", "ms", 1000 * statistics.median(ids[OURS]), most=5.0)
    yield Row("P5", f"search by id {among}, 95th percentile", "ms", p95, most=7.0)
    yield beside(ids, "FAISS Flat alone", goal="P5", what=f"search by id {among}", inverted=True)
    yield beside(
        pasted,
        "the encoder alone",
        goal="P6",
        what=f"search of a pasted paper {among}",
        inverted=True,
        most=1.3,
    )
    if neighbour:
        yield beside(
            pasted,
            _TXTAI,
            goal="",
            what=f"search of a pasted paper {among}",
            inverted=True,
            note="it returns ids and scores only",
        )


def _storage(engine: SearchEngine, data: Path) -> Iterator[Row]:
    """Bytes of a sentence on disk, and reading the vectors of papers that are not in memory."""
    snapshot = engine.snapshot
    files = [path for path in data.rglob("*") if path.is_file()]
    for kind, unit, of in (
        ("vectors.npy", "bytes a sentence", snapshot.n_rows),
        ("", "bytes a paper", len(snapshot)),
    ):
        size = sum(path.stat().st_size for path in files if path.name.startswith(kind))
        yield Row("P8", f"on disk: {kind or 'all files of a collection'}", unit, size / of)
    places = np.sort(np.random.default_rng(1).choice(len(snapshot), min(_PAGES_READ, len(snapshot)), False))
    vectors = [path for path in files if path.name.startswith("vectors")]

    def forgotten() -> None:
        for path in vectors:
            with path.open("rb") as stream:
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    cold = []
    for _ in range(5):
        forgotten()
        start = time.perf_counter()
        snapshot.gather(places)
        cold.append(1000 * (time.perf_counter() - start))
    yield Row(
        "P8",
        f"vectors of {len(places):,} papers that are not in memory",
        "ms",
        statistics.median(cold),
        most=25.0,
        note="pages that are mapped stay; the system may keep some",
    )
