"""Builds: what they publish, what they refuse, and that an interruption changes nothing but the time."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from indexer.reading import PartBounds
from indexer.snapshot import open_snapshot
from models.encoder import Encoder, load_encoder
from tests.support.builds import (
    DEMO_CORPUS,
    Counting,
    build_quietly,
    many_papers,
    published_files,
    write_corpus,
)
from tests.support.commands import run
from tests.support.servers.patience import soon

AKIN = [sys.executable, "-m", "akin"]
TWENTIES = PartBounds(20)


def test_an_interrupted_build_goes_on_and_changes_nothing(tmp_path: Path, hashing: Encoder) -> None:
    """A build stopped in its third part re-encodes that part alone, and publishes the same bytes."""
    build_quietly(DEMO_CORPUS, tmp_path / "whole", hashing, parts=TWENTIES)
    with pytest.raises(KeyboardInterrupt):
        build_quietly(DEMO_CORPUS, tmp_path / "cut", Counting(hashing, stop_after=50), parts=TWENTIES)
    second = Counting(hashing)
    report = build_quietly(DEMO_CORPUS, tmp_path / "cut", second, parts=TWENTIES)
    assert (60, 40) == (second.n_encoded, report.reused_papers)
    assert published_files(tmp_path / "whole") == published_files(tmp_path / "cut")
    assert not (tmp_path / "cut" / "building" / "corpus").exists()


def test_a_changed_corpus_takes_up_only_what_is_the_same(tmp_path: Path, hashing: Encoder) -> None:
    """After an interruption, a part whose papers changed is encoded anew."""
    papers = many_papers(60)
    corpus = write_corpus(tmp_path / "c.jsonl", papers)
    with pytest.raises(KeyboardInterrupt):
        build_quietly(corpus, tmp_path / "cut", Counting(hashing, stop_after=50), parts=TWENTIES)
    papers[0]["title"] = "Another title altogether"
    write_corpus(corpus, papers)
    second = Counting(hashing)
    build_quietly(corpus, tmp_path / "cut", second, parts=TWENTIES)
    build_quietly(corpus, tmp_path / "whole", hashing, parts=TWENTIES)
    assert 40 == second.n_encoded
    assert published_files(tmp_path / "whole") == published_files(tmp_path / "cut")


def test_a_killed_build_resumes(tmp_path: Path) -> None:
    """SIGKILL between parts of a real process; the next run reuses them and publishes the same bytes."""
    papers = [{**paper, "abstract": f"Whales sing {paper['id']}."} for paper in many_papers(2_600)]
    corpus = write_corpus(tmp_path / "c.jsonl", papers)
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    command = ["index", str(corpus), "--encoder", "hashing", "--data"]
    process = subprocess.Popen(
        [*AKIN, *command, str(cut)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    soon(
        lambda: len(list((cut / "building" / "corpus").glob("vectors-*"))) >= 2,
        every_s=0.002,
        process=process,
    )
    process.send_signal(signal.SIGKILL)
    assert -signal.SIGKILL == process.wait()
    assert not (cut / "CURRENT").exists()
    done = run(*command, cut)
    reused = int(done.split("were encoded before an interruption")[0].split()[-2].replace(",", ""))
    assert 2000 == reused
    run(*command, whole)
    assert published_files(whole) == published_files(cut)


def test_ctrl_c_is_a_clear_message(tmp_path: Path) -> None:
    """SIGINT ends a build with status 130, no traceback, and the older generation served."""
    data = tmp_path / "data"
    build_quietly(DEMO_CORPUS, data, load_encoder("hashing"))
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(1_200))
    process = subprocess.Popen(
        [*AKIN, "index", str(corpus), "--encoder", "hashing", "--replace", "--data", str(data)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        # A test run in the background of a script ignores SIGINT, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
    )
    soon(lambda: any((data / "building" / "corpus").glob("vectors-*")), every_s=0.002, process=process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=240)
    assert 130 == process.returncode
    assert b"Interrupted" in errors
    assert b"Traceback" not in errors
    assert "000001" == open_snapshot(data).generation


WITH_SMALL_FILES = """
import resource, sys
from akin.cli import app
resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))
app(sys.argv[1:])
"""


def test_no_room_for_a_file_is_a_clear_error(tmp_path: Path) -> None:
    """A build that cannot write its vectors names the file, keeps the served generation, and resumes."""
    data = tmp_path / "data"
    build_quietly(DEMO_CORPUS, data, load_encoder("hashing"), limit=10)
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(300))
    options = ["--encoder", "hashing", "--dtype", "float32", "--replace", "--data", str(data)]
    command = ["index", str(corpus), *options]
    failed = subprocess.run(
        [sys.executable, "-c", WITH_SMALL_FILES, *command], capture_output=True, text=True, check=False
    )
    assert 1 == failed.returncode
    assert "Traceback" not in failed.stderr
    assert "would pass the size limit; raise it and run the same command again" in failed.stderr
    assert "000001" == open_snapshot(data).generation
    run(*command)
    assert 300 == len(open_snapshot(data))


def test_a_build_killed_while_tidying_up_hinders_no_later_one(tmp_path: Path, hashing: Encoder) -> None:
    """Whatever a kill left of the building folder, the next build of the same corpus succeeds."""
    build_quietly(DEMO_CORPUS, tmp_path, hashing)
    with pytest.raises(KeyboardInterrupt):
        build_quietly(DEMO_CORPUS, tmp_path, Counting(hashing, stop_after=50), replace=True)
    (tmp_path / "building" / "corpus" / "part-00000.arrow").unlink()
    (tmp_path / "building" / "corpus.discarded").mkdir()
    (tmp_path / "segments" / "000001.discarded").mkdir()
    assert "000002" == build_quietly(DEMO_CORPUS, tmp_path, hashing, replace=True).manifest.generation
    expected = {"CURRENT", "LOCK", "building", "catalog.sqlite3", "segments", "snapshots"}
    assert expected == {path.name for path in tmp_path.iterdir()}
    assert {"corpus.lock", "changes.lock"} == {path.name for path in (tmp_path / "building").iterdir()}
    assert {"000001", "000002"} == {path.name for path in (tmp_path / "segments").iterdir()}


def test_a_build_killed_after_its_papers_entered_the_catalog_reads_nothing_again(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its segment was made: they are pending by then, but they are those that it had read."""
    papers = many_papers(60)
    build_quietly(write_corpus(tmp_path / "one.jsonl", papers[:20]), tmp_path / "data", hashing)
    corpus = write_corpus(tmp_path / "more.jsonl", papers[10:])

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("indexer.build.grow", stopped)
        with pytest.raises(KeyboardInterrupt):
            build_quietly(corpus, tmp_path / "data", hashing)
    with monkeypatch.context() as patched:
        patched.setattr("indexer.build.read_corpus", stopped)
        report = build_quietly(corpus, tmp_path / "data", hashing)
    assert (60, 10, 40) == (report.manifest.n_papers, report.reading.unchanged, report.reused_papers)
