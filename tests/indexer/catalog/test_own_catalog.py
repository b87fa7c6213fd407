"""A collection belongs to one catalog: any other catalog is refused before anything is changed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from akin.cli.app import app
from indexer.catalog.catalog import Catalog
from indexer.catalog.database import Database
from indexer.catalog.migrations import NEWEST, scripts
from indexer.collection import build
from indexer.collection.delete import delete_papers
from indexer.collection.rollback import rollback
from indexer.files.data_folder import CATALOG_FILE, KEEP, DataFolder
from indexer.snapshot.folder import current_generation, read_manifest
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.errors import StorageError
from models.types import Paper, Sentence
from tests.support.builds import build_quietly, many_papers, write_corpus, written_before
from tests.support.commands import run


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a folder with a corpus and its collection, which has two generations because p3 was deleted."""
    folder = tmp_path_factory.mktemp("own")
    build_quietly(write_corpus(folder / "c.jsonl", many_papers(20)), folder / "data", hashing)
    with Catalog.open(folder / "data" / CATALOG_FILE) as catalog:
        delete_papers(folder / "data", ["p3"], catalog, keep=KEEP)
    return folder


@pytest.fixture
def data(template: Path, tmp_path: Path) -> Path:
    """Return a copy of the collection."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return tmp_path / "data"


def fill(catalog: Catalog) -> None:
    """Make ten changes to a catalog, more than the collections here have had."""
    for number in range(10):
        text = f"Whale {number} sings."
        catalog.add([Paper("p5", "Whales", text, (Sentence(text, 0, len(text)),))])


COMMANDS: dict[str, Callable[[Path], list[str | Path]]] = {
    "delete": lambda data: ["delete", "p5"],
    "rollback": lambda data: ["snapshot", "rollback"],
    "index": lambda data: ["index", data.parent / "c.jsonl", "--device", "cpu"],
    "index --replace": lambda data: [
        "index", data.parent / "c.jsonl", "--replace", "--encoder", "hashing", "--device", "cpu"
    ],
    "reindex": lambda data: ["reindex", "--device", "cpu", "--sample", "0"],
    "backup": lambda data: ["backup", data.parent / "copy"],
}  # fmt: skip


def refused(data: Path, command: str, *options: str | Path) -> str:
    """Run a command that must fail, and return its output."""
    arguments = [*COMMANDS[command](data), "--data", data, *options]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert 1 == result.exit_code
    return result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_another_catalog_is_refused(data: Path, tmp_path: Path, command: str) -> None:
    """No command reads, writes or publishes with another catalog, even if that one has seen more changes."""
    with Catalog.open(tmp_path / "other.sqlite3") as other:
        fill(other)
        assert "--catalog" in refused(data, command, "--catalog", tmp_path / "other.sqlite3")
        assert (10, 1) == (other.last_change(), other.count())
    assert (["000001", "000002"], "000002") == (DataFolder(data).generations(), current_generation(data))
    assert not (tmp_path / "copy" / "CURRENT").exists()


@pytest.mark.parametrize("options", [(), ("--replace",)])
def test_a_new_folder_takes_no_catalog_of_another_collection(
    data: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """A corpus is not mixed with the papers of another collection, nor does it replace them."""
    catalog, new = data / CATALOG_FILE, tmp_path / "new"
    corpus = write_corpus(tmp_path / "other.jsonl", many_papers(2))
    arguments = ["index", corpus, "--data", new, "--encoder", "hashing", "--device", "cpu"]
    result = CliRunner().invoke(app, [*map(str, arguments), "--catalog", str(catalog), *options])
    assert 1 == result.exit_code
    assert "has 19 papers of another collection" in result.output
    assert not DataFolder(new).has_collection
    with Catalog.open(catalog) as papers:
        assert 19 == papers.count()


def test_a_first_build_is_resumed_with_its_catalog(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first build with a catalog elsewhere that was stopped before it published is finished by the next."""
    arguments = [*COMMANDS["index"](data), "--encoder", "hashing", "--catalog", tmp_path / "c.sqlite3"]
    arguments += ["--data", tmp_path / "new"]

    def stop(*_: object, **__: object) -> None:
        raise StorageError("stopped")

    with monkeypatch.context() as stopped:
        stopped.setattr(build, "publish_whole", stop)
        assert 1 == CliRunner().invoke(app, [*map(str, arguments)]).exit_code
    with Catalog.open(tmp_path / "c.sqlite3") as papers:
        assert 20 == papers.count()
    run(*arguments)
    assert 20 == read_manifest(tmp_path / "new", "000001").n_papers


@pytest.mark.parametrize("command", COMMANDS)
def test_no_catalog_is_made_where_the_collection_has_another(data: Path, command: str) -> None:
    """If --catalog is forgotten, no empty catalog is created."""
    (data / CATALOG_FILE).rename(data.parent / "elsewhere.sqlite3")
    assert "--catalog" in refused(data, command)
    assert not (data / CATALOG_FILE).exists()


@pytest.mark.parametrize("command", ["delete", "rollback", "index", "index --replace", "reindex"])
def test_an_older_copy_of_the_catalog_is_refused(data: Path, tmp_path: Path, command: str) -> None:
    """A copy with the collection's catalog id but fewer changes than the collection is refused."""
    shutil.copy(data / CATALOG_FILE, tmp_path / "older.sqlite3")
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, ["p4"], catalog, keep=KEEP)
    assert "older copy" in refused(data, command, "--catalog", tmp_path / "older.sqlite3")


@pytest.mark.parametrize("left", [None, b"", b"not a database " * 1000, 0.5])
def test_no_remedy_for_a_lost_catalog_leads_to_another_error(data: Path, left: bytes | float | None) -> None:
    """If the catalog is lost, empty, garbage or cut, each command that needs it says to make a new folder."""
    file = data / CATALOG_FILE
    whole = file.read_bytes()
    file.unlink()
    for command in ("delete", "index", "index --replace", "reindex"):
        if left is not None:
            file.write_bytes(whole[: int(len(whole) * left)] if isinstance(left, float) else left)
        message = " ".join(refused(data, command).split())
        assert "new folder" in message
        assert "again" not in message
    run(
        "index",
        data.parent / "c.jsonl",
        "--encoder",
        "hashing",
        "--device",
        "cpu",
        "--data",
        data.parent / "new",
    )


def test_an_older_copy_of_the_catalog_becomes_a_collection(data: Path, tmp_path: Path) -> None:
    """The command that is named for an older copy of a lost catalog makes a new folder with its papers."""
    older, new = tmp_path / "older.sqlite3", tmp_path / "new"
    shutil.copy(data / CATALOG_FILE, older)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, ["p4"], catalog, keep=KEEP)
    assert "akin reindex --data NEW --catalog GIVEN" in refused(data, "delete", "--catalog", older)
    run("reindex", "--data", new, "--catalog", older, "--encoder", "hashing", "--device", "cpu")
    assert 19 == len(open_snapshot(new))


def test_a_copy_of_the_catalog_is_the_collections_own(data: Path, tmp_path: Path) -> None:
    """A catalog can be moved to another file and used from there."""
    shutil.copy(data / CATALOG_FILE, tmp_path / "moved.sqlite3")
    with Catalog.open(tmp_path / "moved.sqlite3") as catalog:
        assert 1 == delete_papers(data, ["p4"], catalog, keep=KEEP).n_deleted


def test_the_id_stays_and_differs_between_catalogs(catalog_place: str | Path, tmp_path: Path) -> None:
    """A catalog gets an id when created, which stays the same and differs from those of other catalogs."""
    with Catalog.open(catalog_place) as one, Catalog.open(tmp_path / "other.sqlite3") as other:
        first = one.identity()
        assert 32 == len(first) == len(other.identity())
        assert first != other.identity()
    with Catalog.open(catalog_place) as again:
        assert first == again.identity()


def test_an_older_catalog_gets_an_id(catalog_place: str | Path) -> None:
    """`akin migrate` gives an id to a catalog with an older schema, and can be run again."""
    database = Database(catalog_place)
    with database.writing() as connection:
        scripts.upgrade(connection, "0004")
    database.close()
    for had in ("0004", NEWEST):
        place = ("--catalog", catalog_place) if isinstance(catalog_place, str) else ()
        data = Path() if place else Path(catalog_place).parent
        assert had in run("migrate", "--data", data, *place)
    with Catalog.open(catalog_place) as catalog:
        assert 32 == len(catalog.identity())


def test_a_catalog_that_is_not_there_is_not_migrated(tmp_path: Path) -> None:
    """Migrating a missing catalog fails and does not create one."""
    assert "nothing is indexed here" in run("migrate", "--data", tmp_path, status=1)
    assert [] == list(tmp_path.iterdir())


def test_an_older_collection_takes_the_id_up(data: Path, tmp_path: Path) -> None:
    """A collection without a catalog id compares numbers of changes until a publication stores the id."""
    written_before(data, "catalog")
    assert read_manifest(data, "000002").catalog is None
    assert 19 == len(open_snapshot(data))
    with Catalog.open(tmp_path / "empty.sqlite3") as empty, pytest.raises(StorageError):
        rollback(data, catalog=empty)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert catalog.identity() == delete_papers(data, ["p4"], catalog, keep=KEEP).manifest.catalog
    with Catalog.open(tmp_path / "other.sqlite3") as other:
        fill(other)
        with pytest.raises(StorageError, match="another catalog"):
            delete_papers(data, ["p5"], other, keep=KEEP)
