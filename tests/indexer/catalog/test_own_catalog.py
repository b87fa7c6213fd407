"""A collection and its catalog belong together: any other catalog is refused before anything is changed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from akin.cli.app import app
from indexer.catalog.catalog import Catalog
from indexer.catalog.database import Database
from indexer.catalog.migrations import NEWEST, scripts
from indexer.collection.changes import delete_papers
from indexer.collection.publishing import rollback
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
    """A folder with a corpus and its collection, of two generations: p3 is deleted."""
    folder = tmp_path_factory.mktemp("own")
    build_quietly(write_corpus(folder / "c.jsonl", many_papers(20)), folder / "data", hashing)
    with Catalog.open(folder / "data" / CATALOG_FILE) as catalog:
        delete_papers(folder / "data", ["p3"], catalog, keep=KEEP)
    return folder


@pytest.fixture
def data(template: Path, tmp_path: Path) -> Path:
    """A copy of the collection."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return tmp_path / "data"


def fill(catalog: Catalog) -> None:
    """Ten changes, more than the collections here have had."""
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
    """What a command says that is refused."""
    arguments = [*COMMANDS[command](data), "--data", data, *options]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert 1 == result.exit_code
    return result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_another_catalog_is_refused(data: Path, tmp_path: Path, command: str) -> None:
    """However many changes another catalog has seen: no command reads it, writes to it or publishes."""
    with Catalog.open(tmp_path / "other.sqlite3") as other:
        fill(other)
        assert "--catalog" in refused(data, command, "--catalog", tmp_path / "other.sqlite3")
        assert (10, 1) == (other.last_change(), other.count())
    assert (["000001", "000002"], "000002") == (DataFolder(data).generations(), current_generation(data))
    assert not (tmp_path / "copy" / "CURRENT").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_catalog_is_made_where_the_collection_has_another(data: Path, command: str) -> None:
    """Where --catalog is forgotten, or misspelt, there is no empty catalog afterwards."""
    (data / CATALOG_FILE).rename(data.parent / "elsewhere.sqlite3")
    assert "--catalog" in refused(data, command)
    assert not (data / CATALOG_FILE).exists()


@pytest.mark.parametrize("command", ["delete", "rollback", "index", "index --replace", "reindex"])
def test_an_older_copy_of_the_catalog_is_refused(data: Path, tmp_path: Path, command: str) -> None:
    """A copy knows itself as the collection's own, but has not come as far."""
    shutil.copy(data / CATALOG_FILE, tmp_path / "older.sqlite3")
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, ["p4"], catalog, keep=KEEP)
    assert "older copy" in refused(data, command, "--catalog", tmp_path / "older.sqlite3")


def test_a_copy_of_the_catalog_is_the_collections_own(data: Path, tmp_path: Path) -> None:
    """A catalog may move."""
    shutil.copy(data / CATALOG_FILE, tmp_path / "moved.sqlite3")
    with Catalog.open(tmp_path / "moved.sqlite3") as catalog:
        assert 1 == delete_papers(data, ["p4"], catalog, keep=KEEP).n_deleted


def test_the_id_stays_and_differs_between_catalogs(catalog_place: str | Path, tmp_path: Path) -> None:
    """Each catalog gets one id when it is made."""
    with Catalog.open(catalog_place) as one, Catalog.open(tmp_path / "other.sqlite3") as other:
        first = one.identity()
        assert 32 == len(first) == len(other.identity())
        assert first != other.identity()
    with Catalog.open(catalog_place) as again:
        assert first == again.identity()


def test_an_older_catalog_gets_an_id(catalog_place: str | Path) -> None:
    """A catalog of the schema before keeps its papers and is given an id by `akin migrate`, once."""
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
    """It is not made either."""
    assert "nothing is indexed here" in run("migrate", "--data", tmp_path, status=1)
    assert [] == list(tmp_path.iterdir())


def test_an_older_collection_takes_the_id_up(data: Path, tmp_path: Path) -> None:
    """It is opened as before, knows its catalog by the number of changes, once published by its id."""
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
