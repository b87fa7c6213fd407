"""Builds: what they publish, what they refuse, and that an interruption changes nothing but the time."""

import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import DEMO_CORPUS, build_quietly

from indexer import parts
from indexer.build import BuildArguments, build
from indexer.catalog import CATALOG_FILE, Catalog
from indexer.snapshot import current_generation, generations, open_snapshot, snapshot_folder
from models.encoder import Encoder, load_encoder
from models.errors import BrokenRowError, BuildLockedError, CorpusError, EncoderError, StorageError
from models.types import EncodedPaper, EncoderSpec, Paper

AKIN = [sys.executable, "-m", "akin"]


def write_corpus(path: Path, papers: Sequence[dict[str, object]]) -> Path:
    """Write papers as JSON lines."""
    path.write_text("".join(json.dumps(paper) + "\n" for paper in papers), encoding="utf-8")
    return path


def many_papers(n: int) -> list[dict[str, object]]:
    """As many papers as asked for, made from the demo corpus by rotating its sentences."""
    demo = [json.loads(line) for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]
    papers = []
    for i in range(n):
        paper = demo[i % len(demo)]
        turn = i // len(demo) % len(paper["abstract"])
        sentences = paper["abstract"][turn:] + paper["abstract"][:turn]
        papers.append(
            {"id": f"p{i}", "title": f"{paper['title']} {i}", "abstract": sentences, "year": 2000 + i % 20}
        )
    return papers


def published_files(data: Path) -> dict[str, bytes]:
    """The content of every file of the served generation but the manifest, which carries the time."""
    folder = snapshot_folder(data, current_generation(data))
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }


class Counting:
    """An encoder that counts papers and may be stopped by an exception after some of them."""

    def __init__(self, encoder: Encoder, stop_after: int | None = None) -> None:
        self._encoder = encoder
        self._stop_after = stop_after
        self.n_encoded = 0

    @property
    def spec(self) -> EncoderSpec:
        """The wrapped encoder's."""
        return self._encoder.spec

    def encode(self, papers: Sequence[Paper]) -> list[EncodedPaper]:
        """Encode with the wrapped encoder."""
        self.n_encoded += len(papers)
        if self._stop_after is not None and self.n_encoded > self._stop_after:
            raise KeyboardInterrupt
        return self._encoder.encode(papers)


def test_an_interrupted_build_goes_on_and_changes_nothing(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build stopped in its third part re-encodes that part alone, and publishes the same bytes."""
    monkeypatch.setattr(parts, "PART_PAPERS", 20)
    build_quietly(DEMO_CORPUS, tmp_path / "whole", hashing)
    with pytest.raises(KeyboardInterrupt):
        build_quietly(DEMO_CORPUS, tmp_path / "cut", Counting(hashing, stop_after=50))
    second = Counting(hashing)
    report = build_quietly(DEMO_CORPUS, tmp_path / "cut", second)
    assert (60, 40) == (second.n_encoded, report.reused_papers)
    assert published_files(tmp_path / "whole") == published_files(tmp_path / "cut")
    assert not (tmp_path / "cut" / "building").exists()


def test_a_changed_corpus_takes_up_only_what_is_the_same(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an interruption, a part whose papers changed is encoded anew."""
    monkeypatch.setattr(parts, "PART_PAPERS", 20)
    papers = many_papers(60)
    corpus = write_corpus(tmp_path / "c.jsonl", papers)
    with pytest.raises(KeyboardInterrupt):
        build_quietly(corpus, tmp_path / "cut", Counting(hashing, stop_after=50))
    papers[0]["title"] = "Another title altogether"
    write_corpus(corpus, papers)
    second = Counting(hashing)
    build_quietly(corpus, tmp_path / "cut", second)
    build_quietly(corpus, tmp_path / "whole", hashing)
    assert 40 == second.n_encoded
    assert published_files(tmp_path / "whole") == published_files(tmp_path / "cut")


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes], timeout_s: float = 60) -> None:
    """Wait until ``condition`` holds; the process must not end before."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert process.poll() is None, "the build ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_killed_build_resumes(tmp_path: Path) -> None:
    """SIGKILL between parts of a real process; the next run reuses them and publishes the same bytes."""
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(4000))
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    command = [*AKIN, "index", str(corpus), "--encoder", "hashing", "--data"]
    process = subprocess.Popen([*command, str(cut)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(list((cut / "building").glob("vectors-*"))) >= 2, process)
    process.send_signal(signal.SIGKILL)
    assert -signal.SIGKILL == process.wait()
    assert not (cut / "CURRENT").exists()
    done = subprocess.run([*command, str(cut)], capture_output=True, text=True, check=True)
    reused = int(done.stdout.split("were encoded before an interruption")[0].split()[-2].replace(",", ""))
    assert 2000 <= reused <= 3000
    subprocess.run([*command, str(whole)], capture_output=True, check=True)
    assert published_files(whole) == published_files(cut)


def test_ctrl_c_is_a_clear_message(tmp_path: Path) -> None:
    """SIGINT ends a build with status 130, no traceback, and the older generation served."""
    data = tmp_path / "data"
    build_quietly(DEMO_CORPUS, data, load_encoder("hashing"))
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(4000))
    process = subprocess.Popen(
        [*AKIN, "index", str(corpus), "--encoder", "hashing", "--data", str(data)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    wait_for(lambda: any((data / "building").glob("vectors-*")), process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert 130 == process.returncode
    assert b"Interrupted" in errors
    assert b"Traceback" not in errors
    assert "000001" == open_snapshot(data).generation


def limit_files(n_bytes: int) -> None:
    """Let no file of this process grow past a size, as a full disk would."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


def test_no_room_for_a_file_is_a_clear_error(tmp_path: Path) -> None:
    """A build that cannot write a file says so, keeps the served generation, and later resumes."""
    data = tmp_path / "data"
    build_quietly(DEMO_CORPUS, data, load_encoder("hashing"), limit=10)
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(2000))
    command = [*AKIN, "index", str(corpus), "--encoder", "hashing", "--data", str(data)]
    failed = subprocess.run(
        command, capture_output=True, text=True, preexec_fn=lambda: limit_files(3_000_000), check=False
    )
    assert 1 == failed.returncode
    assert "Traceback" not in failed.stderr
    assert "run the same command again" in failed.stderr.replace("\n", " ")
    assert "000001" == open_snapshot(data).generation
    subprocess.run(command, capture_output=True, check=True)
    assert 2000 == len(open_snapshot(data))


ODD_ROWS: list[tuple[str, dict[str, object]]] = [
    ("abstract", {"id": "empty", "title": "t", "abstract": ""}),
    ("title", {"id": "long", "title": "x" * 1_000_000, "abstract": "One. Two."}),
    ("duplicate id", {"id": "p0", "title": "t", "abstract": "One. Two."}),
    ("title", {"id": "untitled", "abstract": "One. Two."}),
    ("id", {"title": "t", "abstract": "One. Two."}),
    ("facet", {"id": "f", "title": "t", "abstract": ["One.", "Two."], "facets": ["method"]}),
]


def test_broken_rows_are_reported_and_skipped(tmp_path: Path, hashing: Encoder) -> None:
    """Every broken row is named by file, line and reason; the others are indexed."""
    corpus = write_corpus(
        tmp_path / "c.jsonl", [*many_papers(3), *(row for _, row in ODD_ROWS), *many_papers(5)[3:]]
    )
    report = build_quietly(corpus, tmp_path / "data", hashing)
    refusals = report.reading.refusals
    assert (5, len(ODD_ROWS), 1) == (report.manifest.n_papers, refusals.broken, refusals.duplicates)
    for line, ((reason, _), example) in enumerate(zip(ODD_ROWS, refusals.examples, strict=True), start=4):
        assert example.startswith(f"{corpus}:{line}: ")
        assert reason in example
        assert len(example) < 1000


def test_a_broken_row_is_fatal_when_asked(tmp_path: Path, hashing: Encoder) -> None:
    """With on_error fail the first broken row stops the build; nothing is published."""
    corpus = write_corpus(tmp_path / "c.jsonl", [*many_papers(3), ODD_ROWS[0][1]])
    with pytest.raises(BrokenRowError, match=r"c\.jsonl:4: "):
        build_quietly(corpus, tmp_path / "data", hashing, on_error="fail")
    assert [] == generations(tmp_path / "data")


def test_long_and_foreign_abstracts_are_indexed_and_counted(tmp_path: Path, minilm: Encoder) -> None:
    """A 200-sentence abstract keeps what fits the encoder, the rest is counted, as are other languages."""
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
    assert {"fr": 1} == report.reading.languages
    assert (200, 200 - kept) == (len(snapshot.paper(0).sentences), report.dropped_sentences)
    assert 20 < kept < 60


def test_several_files_make_one_collection(tmp_path: Path, hashing: Encoder) -> None:
    """Plain and gzipped files of one call are indexed in order, duplicates across them found."""
    papers = many_papers(5)
    first = write_corpus(tmp_path / "a.jsonl", papers[:3])
    second = tmp_path / "b.jsonl.gz"
    second.write_bytes(gzip.compress(b"".join(json.dumps(p).encode() + b"\n" for p in papers[2:])))
    report = build(
        [first, second],
        tmp_path / "data",
        hashing,
        arguments=BuildArguments(encoder="hashing"),
        on_progress=lambda stage, done, total: None,
    )
    assert (5, 1) == (report.manifest.n_papers, report.reading.refusals.duplicates)
    assert [f"p{i}" for i in range(5)] == [open_snapshot(tmp_path / "data").paper(i).id for i in range(5)]


def test_the_catalog_holds_what_was_indexed(tmp_path: Path, hashing: Encoder) -> None:
    """Every indexed paper is in the catalog as the snapshot has it."""
    build_quietly(DEMO_CORPUS, tmp_path, hashing, limit=10)
    snapshot = open_snapshot(tmp_path)
    with Catalog.open(tmp_path / CATALOG_FILE) as catalog:
        assert 10 == catalog.count()
        assert snapshot.paper(7) == catalog.paper(snapshot.paper(7).id)


def test_an_unusable_corpus_is_an_error(tmp_path: Path, hashing: Encoder) -> None:
    """Missing, unreadable, empty and paperless files are errors that name the file; nothing is published."""
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
    assert [] == generations(tmp_path / "data")


class Broken(Counting):
    """An encoder whose vectors are not numbers."""

    def encode(self, papers: Sequence[Paper]) -> list[EncodedPaper]:
        """Vectors of NaN."""
        encoded = super().encode(papers)
        return [EncodedPaper(e.sentences * np.float32(np.nan), e.document, 0) for e in encoded]


def test_vectors_that_are_not_numbers_are_refused(tmp_path: Path, hashing: Encoder) -> None:
    """An encoder that gives NaN fails the build with the paper's id."""
    with pytest.raises(EncoderError, match="demo:p00-m00"):
        build_quietly(DEMO_CORPUS, tmp_path, Broken(hashing))


def test_a_second_build_is_refused_while_one_runs(tmp_path: Path, hashing: Encoder) -> None:
    """While one build runs in a data folder, another there raises BuildLockedError."""

    class Nested(Counting):
        """An encoder that starts a second build."""

        def encode(self, papers: Sequence[Paper]) -> list[EncodedPaper]:
            """Encode after the second build was refused."""
            with pytest.raises(BuildLockedError):
                build_quietly(DEMO_CORPUS, tmp_path, hashing)
            return super().encode(papers)

    assert 100 == build_quietly(DEMO_CORPUS, tmp_path, Nested(hashing)).manifest.n_papers
