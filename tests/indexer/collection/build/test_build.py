"""Builds: what they publish, what they refuse, and how they resume after an interruption."""

import signal
import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from indexer.collection.growth import Bounds
from indexer.encoding.arguments import arguments_for
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.errors import SnapshotMissingError
from tests.support.annotators import hashing_annotator
from tests.support.builds import (
    DEMO_CORPUS,
    ROOT,
    Counting,
    build_quietly,
    many_papers,
    published_files,
    write_corpus,
    small_files,
)
from tests.support.commands import flat, run
from tests.support.same_answers import assert_same_answers, ids_of

FIVES = Bounds(part=5)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Return a corpus of 25 papers."""
    return write_corpus(tmp_path / "c.jsonl", many_papers(25))


def test_an_interrupted_build_goes_on_and_changes_nothing(
    corpus: Path, tmp_path: Path, hashing: Encoder
) -> None:
    """A build stopped in its third part encodes only the rest later, and publishes the same bytes."""
    build_quietly(corpus, tmp_path / "whole", hashing, bounds=FIVES)
    with pytest.raises(KeyboardInterrupt):
        build_quietly(corpus, tmp_path / "cut", Counting(hashing, stop_after=12), bounds=FIVES)
    second = Counting(hashing)
    report = build_quietly(corpus, tmp_path / "cut", second, bounds=FIVES)
    assert (15, 10) == (second.n_encoded, report.reused_papers)
    assert published_files(tmp_path / "whole") == published_files(tmp_path / "cut")
    assert not (tmp_path / "cut" / "building" / "corpus").exists()


def test_a_first_build_that_goes_on_keeps_its_encoder(corpus: Path, tmp_path: Path, hashing: Encoder) -> None:
    """The command repeated without the options of the interrupted one takes them; given ones count."""
    data = tmp_path / "data"
    with pytest.raises(KeyboardInterrupt):
        build_quietly(corpus, data, Counting(hashing, stop_after=12), bounds=FIVES, dtype="float32")
    resumed = arguments_for(data)
    assert ("hashing", "float32") == (resumed.encoder, resumed.dtype)
    assert "minilm" == arguments_for(data, encoder="minilm").encoder
    build_quietly(corpus, data, hashing, bounds=FIVES, dtype=resumed.dtype)
    assert "float32" == arguments_for(data).dtype


def test_the_folder_of_an_encoder_is_found_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder is kept by its absolute path, and a name as it is, even beside a folder of that name."""
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "minilm", "hashing"):
        (tmp_path / name).mkdir()
    found = [arguments_for(tmp_path, encoder=name).encoder for name in ("mine", "minilm", "hashing", "none")]
    assert [str(tmp_path / "mine"), "minilm", "hashing", "none"] == found


def test_a_changed_corpus_takes_up_only_what_is_the_same(
    corpus: Path, tmp_path: Path, hashing: Encoder
) -> None:
    """After an interruption, only changed papers and those not yet encoded are encoded."""
    with pytest.raises(KeyboardInterrupt):
        build_quietly(corpus, tmp_path / "cut", Counting(hashing, stop_after=12), bounds=FIVES)
    papers = many_papers(25)
    papers[0]["title"] = "Another title altogether"
    write_corpus(corpus, papers)
    second = Counting(hashing)
    build_quietly(corpus, tmp_path / "cut", second, bounds=FIVES)
    build_quietly(corpus, tmp_path / "whole", hashing, bounds=FIVES)
    assert 16 == second.n_encoded
    one, other = open_snapshot(tmp_path / "whole"), open_snapshot(tmp_path / "cut")
    assert ids_of(one) == ids_of(other)
    assert_same_answers(one, other, ["p0", "p7", "p24"])


KILLED_IN_ITS_THIRD_PART = """
import os, signal, sys
from pathlib import Path
from indexer.collection.growth import Bounds
from indexer.encoding.arguments import arguments_for
from models.encoder import load_encoder
from tests.support.builds import Counting, build_quietly

class Killing(Counting):
    def encode(self, papers, *, layers=()):
        if self.n_encoded == 10:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode(papers, layers=layers)

build_quietly(Path(sys.argv[1]), Path(sys.argv[2]), Killing(load_encoder("hashing")), bounds=Bounds(part=5))
"""


def test_a_killed_build_resumes(corpus: Path, tmp_path: Path, hashing: Encoder) -> None:
    """After SIGKILL between parts, the next build reuses them and publishes the same bytes."""
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_IN_ITS_THIRD_PART, corpus, cut], cwd=ROOT, check=False
    )
    assert -signal.SIGKILL == killed.returncode
    assert not (cut / "CURRENT").exists()
    assert 10 == build_quietly(corpus, cut, hashing, bounds=FIVES).reused_papers
    build_quietly(corpus, whole, hashing, bounds=FIVES)
    assert published_files(whole) == published_files(cut)


# Ctrl-C comes when all is encoded and nothing published; facets come from keywords, which need no model.
INTERRUPTED_BEFORE_IT_PUBLISHES = """
import os, signal, sys
import akin.cli.collection.index, indexer.collection.build
from akin.cli.app import app
from tests.support.annotators import hashing_annotator

# A test run in the background of a script ignores SIGINT, and so would its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
akin.cli.collection.index.load_annotator = lambda *_, **__: hashing_annotator()
indexer.collection.growth.publish_added = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)
app(sys.argv[1:])
"""


def test_ctrl_c_is_a_clear_message(
    corpus: Path, tmp_path: Path, hashed_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGINT ends a command with status 130 and no traceback, and running it again reuses its work."""
    data = copytree(hashed_data, tmp_path / "data")
    command = ["index", str(corpus), "--encoder", "hashing", "--replace", "--data", str(data)]
    stopped = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_BEFORE_IT_PUBLISHES, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 130 == stopped.returncode
    assert "Interrupted" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert "000001" == open_snapshot(data).generation
    monkeypatch.setattr("akin.cli.collection.index.load_annotator", lambda *_, **__: hashing_annotator())
    assert "25 papers had been encoded before" in flat(run(*command))
    assert ("000002", 25) == (open_snapshot(data).generation, len(open_snapshot(data)))


def test_a_first_index_begins_a_collection(corpus: Path, tmp_path: Path) -> None:
    """`--first` publishes a new collection whole, and leaves an existing one unchanged."""
    first = ("--encoder", "hashing", "--data", tmp_path / "data", "--first")
    run("index", corpus, *first, "--publish-every", "10")
    assert ("000001", 25) == ((begun := open_snapshot(tmp_path / "data")).generation, len(begun))
    assert "the collection exists" in flat(run("index", tmp_path / "absent.jsonl", *first))
    more = write_corpus(tmp_path / "more.jsonl", many_papers(26))
    assert "the collection exists" in flat(run("index", more, *first))
    run("index", more, *first, "--again")
    assert 26 == len(open_snapshot(tmp_path / "data"))


def test_no_room_for_a_file_is_a_clear_error(tmp_path: Path, hashing: Encoder) -> None:
    """A build that cannot write its vectors says why, leaves the served generation, and can be resumed."""
    data = tmp_path / "data"
    build_quietly(DEMO_CORPUS, data, hashing, limit=10)
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(100))
    command = ["index", corpus, "--encoder", "hashing", "--dtype", "float32", "--replace", "--data", data]
    with small_files(500_000):
        failed = run(*command, status=1)
    assert "would exceed the size limit; raise the limit, then run the same command again" in flat(failed)
    assert "000001" == open_snapshot(data).generation
    run(*command)
    assert 100 == len(open_snapshot(data))


def test_a_build_killed_while_tidying_up_hinders_no_later_one(
    tmp_path: Path, hashed_data: Path, hashing: Encoder
) -> None:
    """A build succeeds although a killed one left discarded folders and a damaged part."""
    # Services over the shared collection make a secret there.
    copytree(hashed_data, tmp_path, dirs_exist_ok=True, ignore=ignore_patterns("SECRET"))
    with pytest.raises(KeyboardInterrupt):
        build_quietly(
            DEMO_CORPUS,
            tmp_path,
            Counting(hashing, stop_after=50),
            replace=True,
            bounds=Bounds(part=40),
            dtype="float32",
        )
    (part,) = (tmp_path / "building" / "corpus").glob("part-*")
    (part / "papers.arrow").unlink()
    (tmp_path / "building" / "corpus.discarded").mkdir()
    (tmp_path / "segments" / "000001.discarded").mkdir()
    again = build_quietly(DEMO_CORPUS, tmp_path, hashing, replace=True, dtype="float32")
    assert ("000002", 0) == (again.manifest.generation, again.reused_papers)
    expected = {"CURRENT", "LOCK", "building", "catalog.sqlite3", "segments", "snapshots"}
    assert expected == {path.name for path in tmp_path.iterdir()}
    assert {"changes.lock", "corpus.lock", "merge.lock"} == {
        path.name for path in (tmp_path / "building").iterdir() if path.name != "verified.json"
    }
    assert {"000001", "000002"} == {path.name for path in (tmp_path / "segments").iterdir()}


def test_a_build_without_news_removes_what_a_killed_publication_left(
    corpus: Path, tmp_path: Path, hashing: Encoder
) -> None:
    """A build with nothing new removes unnamed segments and half a generation that a kill left."""
    data = tmp_path / "data"
    build_quietly(corpus, data, hashing)
    copytree(data / "segments" / "000001", data / "segments" / "000002")
    copytree(data / "snapshots" / "000001", data / "building" / "snapshot")
    assert "000001" == build_quietly(corpus, data, hashing).manifest.generation
    assert ["000001"] == [path.name for path in (data / "segments").iterdir()]
    assert not (data / "building" / "snapshot").exists()


@pytest.mark.parametrize("content", [None, ""])
def test_a_lost_pointer_begins_no_collection(
    corpus: Path, tmp_path: Path, hashing: Encoder, content: str | None
) -> None:
    """Without CURRENT, `akin index` and `akin reindex` change nothing and name the remedy; --replace repairs."""
    data = tmp_path / "data"
    build_quietly(corpus, data, hashing)
    current = data / "CURRENT"
    current.unlink()
    if content is not None:
        current.write_text(content)
    before = {path for path in (data / "snapshots").iterdir()}
    with pytest.raises(SnapshotMissingError):
        arguments_for(data)
    for command in (("index", corpus), ("reindex",)):
        assert "snapshot" in run(*command, "--data", data, status=1)
    assert before == {path for path in (data / "snapshots").iterdir()}
    run("reindex", "--data", data, "--encoder", "hashing", "--sample", 0)
    current.unlink()
    run("index", corpus, "--data", data, "--replace", "--encoder", "hashing")
    assert ids_of(open_snapshot(data))
