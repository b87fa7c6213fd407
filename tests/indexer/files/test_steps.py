"""Long work that was stopped goes on behind the steps that were finished, and ends as if it never was."""

import shutil
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
import pytest

from indexer.catalog.catalog import CATALOG_FILE, Catalog
from indexer.collection.changes import delete_papers
from indexer.collection.merging import compact
from indexer.files.steps import Steps, discard_steps
from indexer.index.backends.faiss_codes import Adding, FaissCodesIndex
from indexer.index.backends.faiss_hnsw import HnswIndex
from indexer.index.backends.faiss_ivfpq import IvfPqIndex
from indexer.snapshot import segment_writer
from indexer.snapshot.snapshot import open_snapshot
from models.encoder import Encoder
from tests.support.builds import build_quietly, many_papers, published_files, write_corpus
from tests.support.trials.damage import cut, flip


class StoppedError(Exception):
    """What stops the work here."""


class Work:
    """Three files; ``made`` are those written, ``stop_at`` the one before which it is stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: list[str] = []

    def run(self, *, key: str = "a", stop_at: str = "", lasting: bool = True) -> dict[str, str]:
        """Makes what is not there; the checksums."""
        self.made.clear()
        steps = Steps(self.folder, key, lasting=lasting)
        for name in ("one", "two", "three"):
            if name == stop_at:
                raise StoppedError
            steps.make(name, lambda path: self._write(path, key))
        return steps.files()

    def _write(self, path: Path, key: str) -> None:
        self.made.append(path.name)
        path.write_text(f"{key} {path.name}")


@pytest.fixture
def stopped(tmp_path: Path) -> Work:
    """Work that was stopped after two files."""
    work = Work(tmp_path / "work")
    with pytest.raises(StoppedError):
        work.run(stop_at="three")
    return work


def test_finished_files_stay(stopped: Work, tmp_path: Path) -> None:
    """Only the last one is made, and all are as those of work that was never stopped."""
    checksums = stopped.run()
    assert ["three"] == stopped.made
    assert checksums == Work(tmp_path / "other").run()


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
def test_a_damaged_file_is_made_again(stopped: Work, damage: Callable[[Path], None]) -> None:
    """It and what was not made, but not the whole one."""
    damage(stopped.folder / "one")
    stopped.run()
    assert ["one", "three"] == stopped.made


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
def test_without_its_note_all_is_made_again(stopped: Work, damage: Callable[[Path], None]) -> None:
    """Files that nothing vouches for count for nothing."""
    damage(stopped.folder.with_name("work.steps") / "steps.json")
    stopped.run()
    assert ["one", "two", "three"] == stopped.made


def test_other_work_begins_anew(stopped: Work) -> None:
    """Under another key nothing is taken up, and nothing is left of it."""
    (stopped.folder / "stray").touch()
    assert {"one", "two", "three"} == stopped.run(key="b").keys()
    assert ["one", "two", "three"] == stopped.made


def test_work_of_a_moment_leaves_no_notes(tmp_path: Path) -> None:
    """Where steps do not last, each run makes everything."""
    work = Work(tmp_path / "work")
    with pytest.raises(StoppedError):
        work.run(stop_at="three", lasting=False)
    assert not (tmp_path / "work.steps").exists()
    work.run(lasting=False)
    assert ["one", "two", "three"] == work.made


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
def test_what_was_saved_of_a_file(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """The last one counts, until its file is finished; a damaged one is none."""

    def text(content: str) -> Callable[[Path], object]:
        return lambda path: path.write_text(content)

    steps = Steps(tmp_path / "work", "a", lasting=True)
    assert steps.saved("one") is None
    for content in ("1", "12", "123"):
        steps.save("one", text(content))
    again = Steps(tmp_path / "work", "a", lasting=True)
    saved = again.saved("one")
    assert saved is not None
    assert "123" == saved.read_text()
    assert again.saved("two") is None
    damage(saved)
    assert again.saved("one") is None
    again.make("one", text("1234"))
    assert Steps(tmp_path / "work", "a", lasting=True).saved("one") is None
    discard_steps(tmp_path / "work")
    assert not (tmp_path / "work.steps").exists()
    assert (tmp_path / "work").is_dir()


class Saving:
    """Keeps every state of a build; ``begun`` is the one that a build goes on from."""

    def __init__(self, folder: Path, begun: Path | None = None) -> None:
        self.states: list[Path] = []
        self.told: list[int] = []
        self._folder = folder
        self._begun = begun

    def saved(self) -> Path | None:
        """The state given."""
        return self._begun

    def save(self, write: Callable[[Path], object]) -> None:
        """Keeps one more."""
        self.states.append(self._folder / f"{len(self.states)}.bin")
        write(self.states[-1])

    def tell(self, n_rows: int) -> None:
        """Keeps how many."""
        self.told.append(n_rows)


@pytest.mark.parametrize("backend", [IvfPqIndex, HnswIndex])
def test_an_index_from_any_state_has_the_same_bytes(tmp_path: Path, backend: type[FaissCodesIndex]) -> None:
    """Saved when it was trained and after every few rows, gone on with from each: the same file."""
    often = Adding(rows=700, save_every_s=-1.0, saving_share=-1.0)
    rows = np.random.default_rng(3).standard_normal((3_000, 16)).astype(np.float16)
    saving = Saving(tmp_path)
    backend.build(rows, device="cpu", progress=saving, adding=often).save(tmp_path / "whole")
    assert [0, 700, 1_400, 2_100, 2_800] == [faiss.read_index(str(state)).ntotal for state in saving.states]
    assert [0, 700, 1_400, 2_100, 2_800, 3_000] == saving.told
    for state in saving.states:
        again = Saving(tmp_path / "again", state)
        (tmp_path / "again").mkdir(exist_ok=True)
        backend.build(rows, device="cpu", progress=again, adding=often).save(tmp_path / "resumed")
        assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()
        assert len(again.told) < len(saving.told)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """A collection of two segments with a trained index; treat it as read-only."""
    folder = tmp_path_factory.mktemp("made")
    papers = many_papers(60)
    for name, some in (("one", papers[:48]), ("two", papers[48:])):
        corpus = write_corpus(folder / f"{name}.jsonl", some)
        build_quietly(corpus, folder / "data", hashing, backend="ivfpq")
    return folder / "data"


@pytest.fixture
def data(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, where any segment is a large one."""
    monkeypatch.setattr(segment_writer, "_LASTING_ROWS", 1)
    return shutil.copytree(made, tmp_path / "data")


def steps_made(monkeypatch: pytest.MonkeyPatch, stop_after: int | None = None) -> list[str]:
    """The names of the files of segments that are written from now on; stopped after so many."""
    made: list[str] = []
    make = Steps.make

    def counting(steps: Steps, name: str, write: Callable[[Path], object]) -> None:
        def writing(path: Path) -> None:
            if stop_after is not None and len(made) == stop_after:
                raise StoppedError
            made.append(name)
            write(path)

        make(steps, name, writing)

    monkeypatch.setattr(Steps, "make", counting)
    return made


def compacted(data: Path) -> dict[str, bytes]:
    """What is published of a collection once it is compact."""
    compact(data, open_snapshot(data), device="cpu", keep=1)
    return published_files(data)


@pytest.mark.parametrize("stop_after", range(6))
def test_a_stopped_compaction_goes_on(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    """Before any file: those before it are not written again, and what comes of it is the same."""

    shutil.copytree(data, tmp_path / "other")
    whole = compacted(tmp_path / "other")
    with monkeypatch.context() as patched:
        steps_made(patched, stop_after)
        with pytest.raises(StoppedError):
            compacted(data)
    made = steps_made(monkeypatch)
    assert whole == compacted(data)
    assert 6 - stop_after == len(made)
    assert not list((data / "building").glob("segment*"))


def test_a_compaction_of_what_changed_meanwhile_begins_anew(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paper is deleted after a compaction was stopped: it is in nothing that is taken up."""
    with monkeypatch.context() as patched:
        steps_made(patched, 4)
        with pytest.raises(StoppedError):
            compacted(data)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, ["p7"], catalog, keep=1)
    shutil.copytree(data, tmp_path / "other", ignore=shutil.ignore_patterns("segment*"))
    shutil.copytree(data / "segments", tmp_path / "other" / "segments")
    assert compacted(tmp_path / "other") == compacted(data)
    assert open_snapshot(data).find("p7") is None
