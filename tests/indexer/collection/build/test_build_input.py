"""Builds from odd input: broken rows, long and foreign abstracts, unusable files and encoders."""

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from indexer.catalog.catalog import Catalog
from indexer.collection.build import build
from indexer.encoding.arguments import BuildArguments
from indexer.files.data_folder import CATALOG_FILE, DataFolder
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.errors import BrokenRowError, BuildLockedError, CorpusError, EncoderError, StorageError
from models.types import EncodedPaper, Paper
from tests.support.annotators import annotated
from tests.support.builds import DEMO_CORPUS, Counting, build_quietly, many_papers, paper_in, write_corpus

ODD_ROWS: list[tuple[str, dict[str, object]]] = [
    ("abstract", {"id": "empty", "title": "t", "abstract": ""}),
    ("title", {"id": "long", "title": "x" * 1_000_000, "abstract": "One. Two."}),
    ("duplicate id", {"id": "p0", "title": "t", "abstract": "One. Two."}),
    ("title", {"id": "untitled", "abstract": "One. Two."}),
    ("id", {"title": "t", "abstract": "One. Two."}),
    ("facet", {"id": "f", "title": "t", "abstract": ["One.", "Two."], "facets": ["method"]}),
]


def test_broken_rows_are_reported_and_skipped(tmp_path: Path, hashing: Encoder) -> None:
    """Every broken row is reported with file, line and reason, and the other rows are indexed."""
    corpus = write_corpus(
        tmp_path / "c.jsonl", [*many_papers(3), *(row for _, row in ODD_ROWS), *many_papers(5)[3:]]
    )
    report = build_quietly(corpus, tmp_path / "data", hashing)
    refusals = report.staging.refusals
    assert (5, len(ODD_ROWS), 1) == (report.manifest.n_papers, refusals.broken, refusals.duplicates)
    for line, ((reason, _), example) in enumerate(
        zip(ODD_ROWS, map(str, refusals.broken_rows), strict=True), start=4
    ):
        assert example.startswith(f"{corpus}:{line}: ")
        assert reason in example
        assert len(example) < 1000


def test_reading_is_reported_row_by_row(tmp_path: Path, hashing: Encoder) -> None:
    """Reading reports its progress at the start, and at the end with all rows, also unusable ones."""
    corpus = tmp_path / "c.jsonl"
    write_corpus(corpus, [*many_papers(3), *(row for _, row in ODD_ROWS)])
    progress: list[tuple[str, int, int | None]] = []
    arguments = BuildArguments(encoder="hashing", device="cpu")
    annotator = annotated(hashing)
    build(
        [corpus],
        tmp_path / "data",
        annotator,
        arguments=arguments,
        on_progress=lambda *each: progress.append(each),
    )
    n_rows = 3 + len(ODD_ROWS)
    assert [("Reading", 0, None), ("Reading", n_rows, n_rows)] == [
        each for each in progress if each[0] == "Reading"
    ]


def test_a_broken_row_is_fatal_with_on_error_fail(tmp_path: Path, hashing: Encoder) -> None:
    """With ``on_error="fail"``, the first broken row stops the build, and nothing is published."""
    corpus = write_corpus(tmp_path / "c.jsonl", [*many_papers(3), ODD_ROWS[0][1]])
    with pytest.raises(BrokenRowError, match=r"c\.jsonl:4: "):
        build_quietly(corpus, tmp_path / "data", hashing, on_error="fail")
    assert [] == DataFolder(tmp_path / "data").generations()


def test_long_and_foreign_abstracts_are_indexed_and_counted(tmp_path: Path, minilm: Encoder) -> None:
    """Sentences past the token limit and papers in other languages are counted in the report."""
    long = [f"Sentence number {i} says a little more about lakes and rivers." for i in range(200)]
    french = "Nous présentons un modèle pour la prévision des crues. Les résultats sont très encourageants."
    corpus = write_corpus(
        tmp_path / "c.jsonl",
        [
            {"id": "long", "title": "Lakes", "abstract": long},
            {"id": "fr", "title": "Crues", "abstract": french},
        ],
    )
    report = build_quietly(corpus, tmp_path / "data", minilm)
    snapshot = open_snapshot(tmp_path / "data")
    kept = len(snapshot.vectors(0))
    assert {"fr": 1} == report.staging.languages
    assert (200, 200 - kept) == (len(snapshot.paper(0).sentences), report.dropped_sentences)
    assert 20 < kept < 60


def test_several_files_make_one_collection(tmp_path: Path, hashing: Encoder) -> None:
    """Plain and gzipped files are indexed in order, and duplicates across them are found."""
    papers = many_papers(5)
    first = write_corpus(tmp_path / "a.jsonl", papers[:3])
    second = tmp_path / "b.jsonl.gz"
    second.write_bytes(gzip.compress(b"".join(json.dumps(p).encode() + b"\n" for p in papers[2:])))
    report = build(
        [first, second],
        tmp_path / "data",
        annotated(hashing),
        arguments=BuildArguments(encoder="hashing"),
        on_progress=lambda stage, done, total: None,
    )
    assert (5, 1) == (report.manifest.n_papers, report.staging.refusals.duplicates)
    assert [f"p{i}" for i in range(5)] == [open_snapshot(tmp_path / "data").paper(i).id for i in range(5)]


def test_the_catalog_holds_what_was_indexed(tmp_path: Path, hashing: Encoder) -> None:
    """An indexed paper is equal in the catalog and in the snapshot."""
    build_quietly(DEMO_CORPUS, tmp_path, hashing, limit=10)
    snapshot = open_snapshot(tmp_path)
    with Catalog.open(tmp_path / CATALOG_FILE) as catalog:
        assert 10 == catalog.count()
        assert snapshot.paper(7) == paper_in(catalog, snapshot.paper(7).id)


@pytest.mark.parametrize("name", ["bibtex", "nbib", "ris"])
def test_a_wrong_format_is_named(tmp_path: Path, hashing: Encoder, name: str) -> None:
    """A file without an entry of the given format is refused with the format, not for its abstracts."""
    with pytest.raises(CorpusError, match=f"no entry of the format {name}; without --format"):
        build_quietly(DEMO_CORPUS, tmp_path, hashing, format_name=name)


def test_an_unusable_corpus_is_an_error(tmp_path: Path, hashing: Encoder) -> None:
    """Missing, unreadable and empty files, and files without papers, raise errors that name the file."""
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"")
    paperless = write_corpus(tmp_path / "none.jsonl", [{"id": "a", "title": "t", "abstract": ""}])
    junk = tmp_path / "junk.bin"
    junk.write_bytes(os.urandom(5000))
    for path, error in (
        (tmp_path / "absent.jsonl", StorageError),
        (tmp_path, StorageError),
        (empty, CorpusError),
        (paperless, CorpusError),
        (junk, CorpusError),
    ):
        with pytest.raises(error, match=path.name):
            build_quietly(path, tmp_path / "data", hashing)
    assert [] == DataFolder(tmp_path / "data").generations()


class Broken(Counting):
    """An encoder that returns NaN vectors."""

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Return vectors of NaN."""
        encoded = super().encode(papers, layers=layers)
        return [EncodedPaper(e.sentences * np.float32(np.nan), e.document, 0) for e in encoded]


def test_vectors_that_are_not_numbers_are_refused(tmp_path: Path, hashing: Encoder) -> None:
    """NaN vectors fail the build with an error that names the paper."""
    with pytest.raises(EncoderError, match="demo:p00-m00"):
        build_quietly(DEMO_CORPUS, tmp_path, Broken(hashing))


def test_a_second_build_is_refused_while_one_runs(tmp_path: Path, hashing: Encoder) -> None:
    """A second build in the same data folder raises BuildLockedError while the first runs."""

    class Nested(Counting):
        """An encoder that starts a second build."""

        def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
            """Try a second build, which must be refused, then encode."""
            with pytest.raises(BuildLockedError):
                build_quietly(DEMO_CORPUS, tmp_path, hashing)
            return super().encode(papers, layers=layers)

    assert 100 == build_quietly(DEMO_CORPUS, tmp_path, Nested(hashing)).manifest.n_papers
