"""One command upgrades a collection that an older Akin made, without encoding anything."""

import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from indexer.catalog.catalog import Catalog
from indexer.catalog.database import Database
from indexer.catalog.migrations import NEWEST, scripts
from indexer.collection import publishing
from indexer.collection.changes import publish_pending
from indexer.collection.delete import delete_papers
from indexer.collection.maintenance import upgrade as upgrading
from indexer.collection.maintenance.upgrade import upgrade
from indexer.files.data_folder import CATALOG_FILE, KEEP, DataFolder
from indexer.snapshot.opening import open_snapshot
from indexer.words.file import WORDS
from models.checksums import digest_of
from models.encoder import Encoder
from models.errors import SnapshotCorruptError, StorageError
from models.types import Paper, Sentence
from tests.support.annotators import annotated
from tests.support.builds import Counting, build_quietly, many_papers, quiet, write_corpus, written_before
from tests.support.commands import flat, run
from tests.support.same_answers import assert_same_answers, ids_of
from tests.support.trials.damage import flip

SCHEMA = "0006"  # the schema of the last release without staged papers


@pytest.fixture(scope="module")
def today(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a collection of two segments with one paper deleted; treat it as read-only."""
    folder = tmp_path_factory.mktemp("today")
    for number in (20, 30):
        build_quietly(write_corpus(folder / "c.jsonl", many_papers(number)), folder / "data", hashing)
    with Catalog.open(folder / "data" / CATALOG_FILE) as catalog:
        delete_papers(folder / "data", ["p3"], catalog, keep=KEEP)
    return folder / "data"


def strip_words(data: Path) -> None:
    """Remove the words from every segment and manifest."""
    for path in data.glob("segments/*/words.arrow"):
        path.unlink()
    for path in data.glob("snapshots/*/manifest.json"):
        content = json.loads(path.read_bytes())
        del content["sha256"]
        for segment in content["segments"]:
            del segment["files"][WORDS]
        path.write_text(json.dumps({**content, "sha256": digest_of(content)}))
    (data / "CURRENT").write_text((data / "CURRENT").read_text().split()[-1] + "\n")


@pytest.fixture
def old(today: Path, tmp_path: Path) -> Path:
    """Return the collection in an older form: no words, an older schema, and files of a stopped build."""
    data = Path(shutil.copytree(today, tmp_path / "data"))
    database = Database(data / CATALOG_FILE)
    with database.writing() as connection:
        scripts.downgrade(connection, SCHEMA)
    database.close()
    strip_words(data)
    written_before(data, "catalog", "base")
    work = data / "building" / "corpus"
    (work / "vectors-00").mkdir(parents=True)
    for name in ("read.json", "read-00000.json", "part-00000.arrow", "vectors-00/rows.npy"):
        (work / name).write_bytes(b"of before")
    (data / "building" / "segment.steps").mkdir()
    return data


def test_an_older_collection_comes_to_todays_form(old: Path, today: Path) -> None:
    """An upgrade brings the schema up to date and adds words; the answers match those of a new collection."""
    with pytest.raises(StorageError, match="akin migrate"):
        Catalog.open(old / CATALOG_FILE)
    assert open_snapshot(old).words is None
    shown = flat(run("upgrade", "--data", old))
    assert f"had schema {SCHEMA}, it has {NEWEST}; 2 segments got their words" in shown
    assert shown.endswith("is served from now on.")
    again = flat(run("upgrade", "--data", old))
    assert "nothing to do. Generation " in again
    assert again.endswith("is served as before.")
    one, other = open_snapshot(old), open_snapshot(today)
    assert one.words is not None
    assert one.manifest.catalog
    assert ids_of(one) == ids_of(other)
    assert_same_answers(one, other, ["p1", "p17", "p25"])
    assert one.find("p3") is None
    left = {path.name for path in (old / "building").iterdir() if path.suffix not in {".lock", ".json"}}
    assert left <= {"corpus"}
    assert [] == [*(old / "building").glob("corpus/*")]


def test_a_second_upgrade_changes_nothing(old: Path) -> None:
    """Upgrading a collection a second time changes nothing."""
    upgrade(old, old / CATALOG_FILE, keep=KEEP)
    before = DataFolder(old).generations()
    again = upgrade(old, old / CATALOG_FILE, keep=KEEP)
    assert (NEWEST, 0, before) == (again.schema, 0, DataFolder(old).generations())


def test_what_another_command_publishes_meanwhile_stays(today: Path, tmp_path: Path) -> None:
    """An upgrade leaves the files of a generation that another command is about to publish."""
    data = Path(shutil.copytree(today, tmp_path / "data"))
    prepared = DataFolder(data).next_snapshot / "deleted-000001.npy"
    prepared.parent.mkdir()
    prepared.write_bytes(b"of akin delete")
    upgrade(data, data / CATALOG_FILE, keep=KEEP)
    assert b"of akin delete" == prepared.read_bytes()


def test_what_an_interrupted_command_noted_stays(today: Path, tmp_path: Path) -> None:
    """An upgrade removes unfinished work of older versions, and nothing that the next run continues with."""
    data = DataFolder(Path(shutil.copytree(today, tmp_path / "data")))
    notes = [data.begun, data.published_segments, data.prepared_segments]
    for path in (*notes, data.begun.with_name("older.json")):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"{}")
    upgrade(data.root, data.catalog, keep=KEEP)
    assert sorted(notes) == sorted(path for path in data.building.glob("*/*") if path.is_file())


def stopped(*_: object, **__: object) -> None:
    """Stop before a stage that this function replaces."""
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("module", "stage"),
    [
        (upgrading, "migrate"),
        (upgrading, "keep_folder"),
        (publishing, "write_pointer"),
        (publishing, "remove_old_generations"),
    ],
)
def test_an_interrupted_upgrade_goes_on(
    old: Path, today: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, stage: str
) -> None:
    """Stopped after any stage, an upgrade leaves the collection served, and succeeds when run again."""
    work = getattr(module, stage)

    def stop(*given: object, **named: object) -> None:
        work(*given, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, stage, stop)
        with pytest.raises(KeyboardInterrupt):
            upgrade(old, old / CATALOG_FILE, keep=KEEP)
    assert ids_of(open_snapshot(today)) == ids_of(open_snapshot(old))
    done = upgrade(old, old / CATALOG_FILE, keep=KEEP)
    assert open_snapshot(old).words is not None
    named = {entry.name for entry in done.manifest.segments} | {"000001", "000002"}
    assert named >= {path.name for path in (old / "segments").iterdir()}
    assert not (old / "building" / "upgrade").exists()


def test_words_alone_may_be_missing(today: Path, tmp_path: Path) -> None:
    """If only the words are missing, an upgrade publishes a generation with them."""
    data = Path(shutil.copytree(today, tmp_path / "data"))
    strip_words(data)
    done = upgrade(data, data / CATALOG_FILE, keep=KEEP)
    assert (NEWEST, 2) == (done.schema, done.n_segments)
    assert open_snapshot(data).words is not None


def test_words_of_older_rules_are_counted_again(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words of older rules are counted again once, even if an older upgrade was interrupted."""
    data = tmp_path / "data"
    with monkeypatch.context() as before:
        before.setattr("indexer.words.file.RULES", "1")
        before.setattr(upgrading, "RULES", "1")
        build_quietly(write_corpus(tmp_path / "c.jsonl", many_papers(5)), data, hashing)
        strip_words(data)
        before.setattr(upgrading, "move_finished", stopped)
        with pytest.raises(KeyboardInterrupt):
            upgrade(data, data / CATALOG_FILE, keep=KEEP)
    for expected in (1, 0):
        assert expected == upgrade(data, data / CATALOG_FILE, keep=KEEP).n_segments
        assert all(segment.has_current_words for segment in open_snapshot(data).segments)


def test_damage_is_not_given_words(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade refuses damaged papers, even if they were whole when they were opened."""

    def damage(*_: object) -> None:
        flip(min(old.glob("segments/*/papers.arrow")))

    monkeypatch.setattr(upgrading, "expect_own_catalog", damage)
    with pytest.raises(SnapshotCorruptError, match=r"papers\.arrow"):
        upgrade(old, old / CATALOG_FILE, keep=KEEP)


def test_an_upgraded_collection_goes_on(old: Path, hashing: Encoder, tmp_path: Path) -> None:
    """An upgraded collection takes papers from the catalog and from a corpus, and encodes only new ones."""
    upgrade(old, old / CATALOG_FILE, keep=KEEP)
    counting = Counting(hashing)
    with Catalog.open(old / CATALOG_FILE) as catalog:
        catalog.add([Paper("whales", "Whales", "Sing.", (Sentence("Sing.", 0, 5),))])
        publish_pending(old, annotated(counting), catalog, on_progress=quiet, keep=KEEP)
    corpus = write_corpus(tmp_path / "more.jsonl", many_papers(35))
    report = build_quietly(corpus, old, counting)
    assert (36, 6) == (report.manifest.n_papers, report.staging.n_papers)
    assert 1 + 5 == counting.n_encoded
