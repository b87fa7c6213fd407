"""Changes that were acknowledged and are not served yet, when a command comes that is newer than they are."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from indexer.catalog.catalog import CATALOG_FILE, Catalog
from indexer.collection.build import KEEP
from indexer.collection.changes import absorb, differing_papers
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.encoding.reading import Reading, papers_of
from indexer.files.durable import discard_folder, writer_lock
from indexer.snapshot.snapshot import open_snapshot
from models.encoder import Encoder
from models.errors import StorageError
from models.types import Paper, Sentence
from tests.support.annotators import annotated
from tests.support.builds import Counting, build_quietly, many_papers, write_corpus

PAPERS = many_papers(30)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A corpus of 30 papers."""
    return write_corpus(tmp_path / "c.jsonl", PAPERS)


@pytest.fixture
def data(tmp_path: Path, corpus: Path, hashing: Encoder) -> Path:
    """A collection of the papers of the corpus."""
    build_quietly(corpus, tmp_path / "data", hashing)
    return tmp_path / "data"


def titles(data: Path) -> dict[str, str]:
    """What is served."""
    snapshot = open_snapshot(data)
    return {(paper := snapshot.paper(int(position))).id: paper.title for position in snapshot.positions}


def test_a_corpus_is_newer_than_what_was_pending(
    data: Path, corpus: Path, tmp_path: Path, hashing: Encoder
) -> None:
    """Papers deleted or replaced before, not published yet, are there again as the corpus has them."""
    before = titles(data)
    changed = [{**PAPERS[3], "title": "Changed"}, {**PAPERS[4], "title": "Kept"}]
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.delete(["p0"])
        catalog.add(read_corpus(write_corpus(tmp_path / "changed.jsonl", changed), report=CorpusReport()))
    write_corpus(corpus, [paper for paper in PAPERS if paper["id"] != "p4"])
    report = build_quietly(corpus, data, hashing)
    assert (2, 27) == (report.reading.n_papers, report.reading.unchanged)
    assert {**before, "p4": "Kept"} == titles(data)


def test_a_build_that_was_killed_before_it_published_encodes_nothing_again(
    data: Path, corpus: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it put into the catalog is pending then; the same command takes up what it had encoded of it."""

    def full(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    write_corpus(
        corpus, [{**paper, "year": 1999} if paper["id"] == "p5" else paper for paper in many_papers(40)]
    )
    with monkeypatch.context() as broken:
        broken.setattr("indexer.collection.build.grow", full)
        with pytest.raises(StorageError):
            build_quietly(corpus, data, hashing)
    again = Counting(hashing)
    report = build_quietly(corpus, data, again)
    assert (0, 11) == (again.n_encoded, report.reused_papers)
    assert 40 == len(titles(data))


def test_others_write_while_a_corpus_is_added(
    data: Path, corpus: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is added and deleted between the papers of a corpus waits for some of them, and is served."""

    def with_others(work: Path, reading: Reading) -> Iterator[Paper]:
        for number, paper in enumerate(papers_of(work, reading)):
            if number == 10:
                with Catalog.open(data / CATALOG_FILE) as other:
                    other.add([Paper("whales", "Whales", "Sing.", (Sentence("Sing.", 0, 5),))])
                    other.delete(["p31"])
            yield paper

    monkeypatch.setattr("indexer.collection.build.papers_of", with_others)
    write_corpus(corpus, many_papers(60))
    report = build_quietly(corpus, data, hashing, added_at_once=10)
    assert (60, True, False) == (len(titles(data)), "whales" in titles(data), "p31" in titles(data))
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert {} == differing_papers(catalog, open_snapshot(data))
        assert catalog.last_change() == report.manifest.change


def test_a_build_killed_while_it_adds_is_taken_up(
    data: Path, corpus: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The papers that the catalog had taken by then show, and the same command brings the others."""
    write_corpus(corpus, many_papers(60))

    def cut(work: Path, reading: Reading) -> Iterator[Paper]:
        yield from islice(papers_of(work, reading), 15)
        raise StorageError("the device failed")

    with monkeypatch.context() as broken:
        broken.setattr("indexer.collection.build.papers_of", cut)
        with pytest.raises(StorageError):
            build_quietly(corpus, data, hashing, added_at_once=10)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        annotator = annotated(hashing)
        absorb(data, annotator, catalog, on_progress=lambda *_: None, keep=KEEP)
    assert {f"p{number}" for number in range(40)} == titles(data).keys()
    report = build_quietly(corpus, data, hashing)
    assert (20, 60) == (report.reading.n_papers, len(titles(data)))


def test_a_build_starts_where_another_ends(
    data: Path, corpus: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of unfinished work, which the one before removes when it ends, is made after that."""

    @contextmanager
    def after_another(path: Path, *, wait_s: float = 0.0) -> Iterator[None]:
        if path.name == "corpus.lock":
            discard_folder(data / "building" / "corpus")
        with writer_lock(path, wait_s=wait_s):
            yield

    monkeypatch.setattr("indexer.collection.build.writer_lock", after_another)
    write_corpus(corpus, many_papers(40))
    assert 10 == build_quietly(corpus, data, hashing).reading.n_papers
