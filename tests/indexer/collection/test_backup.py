"""Backups as docs/how-to/collections.md describes them: complete, and restored elsewhere."""

import os
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, make_url, text
from typer.testing import CliRunner

from akin.cli.app import app
from indexer.catalog.catalog import Catalog
from indexer.collection.build import build
from indexer.collection.changes import publish_pending
from indexer.collection.delete import delete_papers
from indexer.collection.maintenance import backup
from indexer.collection.maintenance.backup import back_up
from indexer.encoding.arguments import BuildArguments
from indexer.files.data_folder import CATALOG_FILE, KEEP
from indexer.snapshot.folder import verify
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder, load_encoder
from models.errors import BuildLockedError, InputError, StorageError
from service.app import create_app
from service.search.engine import SearchEngine
from service.settings import Settings
from tests.support.annotators import hashing_annotator
from tests.support.builds import build_quietly, many_papers, quiet, small_files, write_corpus
from tests.support.servers.patience import soon
from tests.support.servers.postgres import find_programs

N_PAPERS = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a collection with one paper deleted and some added; treat it as read-only."""
    folder = tmp_path_factory.mktemp("made")
    data = folder / "data"
    build_quietly(write_corpus(folder / "c.jsonl", many_papers(N_PAPERS)), data, hashing)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, ["p3"], catalog, keep=KEEP)
    build_quietly(write_corpus(folder / "m.jsonl", many_papers(N_PAPERS + 5)[5:]), data, hashing)
    return data


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """Return a copy of ``made``."""
    return shutil.copytree(made, tmp_path / "data")


def in_line(data: Path, place: str | Path) -> Manifest:
    """Bring a collection in line with the catalog, as the next command does, and return its manifest."""
    with Catalog.open(place) as catalog:
        return publish_pending(data, hashing_annotator(), catalog, on_progress=quiet, keep=KEEP).manifest


def shown(data: Path) -> set[str]:
    """Return the ids of the served papers."""
    snapshot = open_snapshot(data)
    return {snapshot.paper(int(position)).id for position in snapshot.positions}


def test_a_copy_of_a_quiet_folder_is_the_collection(data: Path, tmp_path: Path) -> None:
    """A `cp -r` of a collection without writers is complete, serves the same papers and can be added to."""
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", data, copy], check=True)  # noqa: S607 - as the page says
    assert open_snapshot(data).manifest == verify(copy, open_snapshot(copy).generation)
    assert shown(data) == shown(copy)
    assert open_snapshot(data).generation == in_line(copy, copy / CATALOG_FILE).generation
    shutil.rmtree(data)
    with service(copy) as client:
        assert 202 == add(client, "new")
        soon(lambda: client.get("/v1/papers/new").status_code == 200)


@contextmanager
def service(data: Path, **settings: str) -> Iterator[TestClient]:
    """Yield a client of a service over a collection."""
    engine = SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=20)
    given = Settings(data=data, keyless="write", device="cpu", rate=0, **settings)  # type: ignore[arg-type]  # keywords pass through
    with TestClient(create_app(given, engine)) as client:
        yield client


def add(client: TestClient, paper_id: str) -> int:
    """Add a paper and return the HTTP status."""
    paper = {"id": paper_id, "title": paper_id, "abstract": f"Paper {paper_id} sings."}
    return client.post("/v1/papers", json={"papers": [paper]}).status_code


def test_a_copy_taken_while_papers_come_and_go_loses_nothing(data: Path, tmp_path: Path) -> None:
    """A backup of a collection that is being written to has every change acknowledged before it."""
    copy, ended = tmp_path / "copy", threading.Event()
    added: list[str] = []
    deleted: list[str] = []

    def write() -> None:
        number = 0
        while not ended.is_set():
            if add(client, f"n{number}") == 202:
                added.append(f"n{number}")
            if number % 2 and client.delete(f"/v1/papers/p{10 + number // 2}").status_code == 204:
                deleted.append(f"p{10 + number // 2}")
            number += 1
            time.sleep(0.02)

    with service(data) as client:
        writer = threading.Thread(target=write)
        writer.start()
        soon(lambda: client.get("/v1/papers/n3").status_code == 200)
        there, gone = set(added), set(deleted)
        akin("backup", copy, "--data", data)
        ended.set()
        writer.join()
    shutil.rmtree(data)
    assert len(there) > 3
    in_line(copy, copy / CATALOG_FILE)
    assert there <= shown(copy)
    assert shown(copy).isdisjoint(gone | {"p3"})
    with service(copy) as client:
        assert 202 == add(client, "afterwards")
        soon(lambda: client.get("/v1/papers/afterwards").status_code == 200)


def akin(*arguments: str | Path) -> str:
    """Run a command and return its output."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert 0 == result.exit_code, result.output
    return result.output


def test_what_is_copied_stays_until_it_is_copied(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Generations published or removed while files are copied do not affect the backup."""
    before, copied = shown(data), shutil.copytree
    generation = open_snapshot(data).generation

    def slow(source: Path, target: Path) -> Path:
        for i in range(10, 15):
            with Catalog.open(data / CATALOG_FILE) as catalog:
                delete_papers(data, [f"p{i}"], catalog, keep=1)
            build_quietly(
                write_corpus(tmp_path / "r.jsonl", many_papers(i)),
                data,
                load_encoder("hashing"),
                replace=True,
            )
        return Path(copied(source, target))

    monkeypatch.setattr("indexer.collection.maintenance.backup.shutil.copytree", slow)
    assert generation == back_up(data, tmp_path / "copy", catalog=data / CATALOG_FILE).generation
    assert before == shown(tmp_path / "copy")
    assert shown(data) == {f"p{i}" for i in range(14)}
    in_line(tmp_path / "copy", tmp_path / "copy" / CATALOG_FILE)
    assert shown(data) == shown(tmp_path / "copy")


def test_a_backup_goes_nowhere_else(data: Path, tmp_path: Path) -> None:
    """No backup is made into a non-empty folder or without the catalog."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(InputError, match="not empty"):
        back_up(data, tmp_path / "full", catalog=data / CATALOG_FILE)
    with pytest.raises(StorageError, match="--catalog"):
        back_up(data, tmp_path / "copy", catalog=tmp_path / "nowhere.sqlite3")
    assert not (tmp_path / "copy").exists()


def test_a_backup_without_room_names_the_copy(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the copy of a file or of the catalog finds no room, the error names that copy and what to do."""
    target, unfinished = tmp_path / "copy", tmp_path / "copy.unfinished"
    with pytest.raises(StorageError, match="size limit; raise") as refused, small_files(10_000):
        back_up(data, target, catalog=data / CATALOG_FILE)
    assert str(refused.value).startswith(f"{unfinished / 'segments'}")
    connect = sqlite3.connect

    def with_little_room(*given: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*given, **options)
        connection.execute("PRAGMA max_page_count = 5")
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", with_little_room)
        with pytest.raises(StorageError, match="disk is full") as refused:
            back_up(data, target, catalog=data / CATALOG_FILE)
    assert str(refused.value).startswith(f"{unfinished / CATALOG_FILE}: ")
    back_up(data, target, catalog=data / CATALOG_FILE)


@pytest.mark.parametrize("place", ["data/copy", "data", ".", "data/segments/copy"])
def test_a_collection_is_not_copied_into_itself(data: Path, place: str) -> None:
    """A backup into the collection itself or a folder that contains it is refused, and writes nothing."""
    before = sorted(data.rglob("*"))
    with pytest.raises(InputError, match=r"one in the other|not empty"):
        back_up(data, data.parent / place, catalog=data / CATALOG_FILE)
    assert before == sorted(data.rglob("*"))
    assert not (data / "copy.unfinished").exists()


@pytest.mark.parametrize("name", ["thesis.tex", "building"])
def test_no_folder_but_of_a_backup_is_cleared(data: Path, tmp_path: Path, name: str) -> None:
    """A folder named like an unfinished backup but with other files in it stays unchanged."""
    other = tmp_path / "copy.unfinished"
    (other / "segments").mkdir(parents=True)
    (other / name).mkdir()
    with pytest.raises(InputError, match=f"holds '{name}'"):
        back_up(data, tmp_path / "copy", catalog=data / CATALOG_FILE)
    assert {"segments", name} == {child.name for child in other.iterdir()}


def test_a_killed_backup_does_not_hinder_the_next(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed backup leaves no backup behind, and running the same command again makes one."""

    def die(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("indexer.collection.maintenance.backup.copy_sqlite", die)
        with pytest.raises(KeyboardInterrupt):
            back_up(data, tmp_path / "copy", catalog=data / CATALOG_FILE)
    assert not (tmp_path / "copy").exists()
    akin("backup", tmp_path / "copy", "--data", data)
    assert shown(data) == shown(tmp_path / "copy")
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_catalog_alone_brings_all_back(data: Path, tmp_path: Path) -> None:
    """If the other files are lost, `akin reindex` rebuilds the collection from a copy of the catalog."""
    copy = tmp_path / "copy"
    akin("backup", copy, "--data", data)
    for name in ("snapshots", "segments"):
        shutil.rmtree(copy / name)
    (copy / "CURRENT").unlink()
    akin("reindex", "--data", copy, "--encoder", "hashing", "--device", "cpu")
    assert shown(data) == shown(copy)


@pytest.fixture
def other_postgres_url(postgres_url: str) -> Iterator[str]:
    """Yield the URL of a second empty database on the same server."""
    url = make_url(postgres_url)
    name = f"{url.database}_b"
    engine = create_engine(url.set(database="postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0"))
        yield url.set(database=name).render_as_string(hide_password=False)
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


def program(name: str) -> str:
    """Return the path of a PostgreSQL program, of the server's version if the tests start the server."""
    folder = None if "AKIN_TEST_POSTGRES_URL" in os.environ else find_programs()
    found = shutil.which(name, path=None if folder is None else str(folder))
    if found is None:
        pytest.skip(f"no {name}: install the client programs of PostgreSQL, as postgresql-client")
    return found


def test_a_dump_of_postgresql_restored_elsewhere(
    postgres_url: str, other_postgres_url: str, tmp_path: Path
) -> None:
    """`akin backup`, then `pg_dump`, during service: all papers are there in another database."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    build(
        [write_corpus(tmp_path / "c.jsonl", many_papers(N_PAPERS))],
        data,
        hashing_annotator(),
        arguments=BuildArguments("hashing", device="cpu"),
        on_progress=quiet,
        catalog=postgres_url,
    )
    plain, other = (
        make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        for url in (postgres_url, other_postgres_url)
    )
    with service(data, catalog_url=postgres_url) as client:
        assert 202 == add(client, "one")
        soon(lambda: client.get("/v1/papers/one").status_code == 200)
        assert "pg_dump" in akin("backup", copy, "--data", data, "--catalog", postgres_url)
        assert 202 == add(client, "two")
        assert 204 == client.delete("/v1/papers/p5").status_code
        dump = tmp_path / "catalog.dump"
        subprocess.run([program("pg_dump"), "--format=custom", f"--file={dump}", plain], check=True)
    subprocess.run(
        [program("pg_restore"), "--no-owner", "--exit-on-error", f"--dbname={other}", dump], check=True
    )
    shutil.rmtree(data)
    in_line(copy, other_postgres_url)
    assert shown(copy) == {"one", "two"} | {f"p{i}" for i in range(N_PAPERS) if i != 5}
    with service(copy, catalog_url=other_postgres_url) as client:
        assert 202 == add(client, "three")
        soon(lambda: client.get("/v1/papers/three").status_code == 200)


def test_what_was_copied_is_not_copied_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped backup resumes with files that are missing or incomplete, and removes stray ones."""
    unfinished, copied = tmp_path / "copy.unfinished", list[str]()
    copyfile = shutil.copyfile

    def counting(source: Path, target: Path, **options: bool) -> object:
        copied.append(str(Path(target).relative_to(unfinished)))
        if stopped and len(copied) > 3:
            raise KeyboardInterrupt
        return copyfile(source, target, **options)

    monkeypatch.setattr("indexer.collection.maintenance.backup.shutil.copyfile", counting)
    stopped = True
    with pytest.raises(KeyboardInterrupt):
        back_up(data, tmp_path / "copy", catalog=data / CATALOG_FILE)
    first = unfinished / copied[0]
    first.write_bytes(first.read_bytes()[:-1])
    (unfinished / "segments" / "999999").mkdir()
    (unfinished / "CURRENT.new").touch()
    stopped, before = False, copied[:3]
    copied.clear()
    back_up(data, tmp_path / "copy", catalog=data / CATALOG_FILE)
    assert before[0] in copied
    assert not {*before[1:]} & {*copied}
    assert shown(data) == shown(tmp_path / "copy")
    assert not (tmp_path / "copy" / "CURRENT.new").exists()
    assert not (tmp_path / "copy" / "segments" / "999999").exists()


def test_a_collection_without_papers_is_copied(data: Path, tmp_path: Path) -> None:
    """A collection without papers can be backed up and opened."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        last = catalog.last_change()
        delete_papers(data, [each.paper_id for each in catalog.current(up_to=last)], catalog, keep=KEEP)
    assert 0 == back_up(data, tmp_path / "copy", catalog=data / CATALOG_FILE).n_papers
    assert not len(open_snapshot(tmp_path / "copy"))


def test_two_backups_to_one_place_do_not_mix(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second backup to the same place is refused while the first runs, even in its last step."""
    refused: list[str] = []
    publish = backup.publish_folder

    def beside_another(prepared: Path, target: Path) -> None:
        with pytest.raises(BuildLockedError) as caught:
            back_up(data, tmp_path / "copy", catalog=data / CATALOG_FILE)
        refused.append(str(caught.value))
        publish(prepared, target)

    monkeypatch.setattr(backup, "publish_folder", beside_another)
    back_up(data, tmp_path / "copy", catalog=data / CATALOG_FILE)
    assert 1 == len(refused)
    assert shown(data) == shown(tmp_path / "copy")


def test_a_file_left_from_another_segment_is_not_in_the_copy(data: Path, tmp_path: Path) -> None:
    """A file left by an older segment of the same name is not in the backup."""
    left = tmp_path / "copy.unfinished" / "segments" / "000001"
    left.mkdir(parents=True)
    (left / "functions.npy").touch()
    back_up(data, tmp_path / "copy", catalog=data / CATALOG_FILE)
    assert not (tmp_path / "copy" / "segments" / "000001" / "functions.npy").exists()
