"""The catalog's database: schema migrations, concurrent users, and failures of disk and server."""

import gc
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, event, inspect, make_url, text

from indexer.catalog.catalog import Catalog
from indexer.catalog.current import changed_after
from indexer.catalog.database import Database
from indexer.catalog.migrations import NEWEST, applied, make, scripts
from indexer.catalog.tables import Base
from indexer.files.data_folder import CATALOG_FILE
from models.errors import InputError, MissingPackageError, StorageError
from models.types import Paper, Sentence
from tests.support.builds import ROOT, paper_in, small_files


def titled(paper_id: str, title: str = "") -> Paper:
    """Return a paper of which only the id and the title matter."""
    return Paper(id=paper_id, title=title, abstract="One.", sentences=(Sentence("One.", 0, 4),))


@pytest.fixture
def catalog(catalog_place: str | Path) -> Iterator[Catalog]:
    """Yield an empty catalog."""
    with Catalog.open(catalog_place) as catalog:
        yield catalog


def schema_of(connection: Connection) -> dict[str, Any]:
    """Return all that the database reports about our tables, independent of the order they were made in."""
    inspector = inspect(connection)
    described = {}
    for table in Base.metadata.tables:
        found = {
            "columns": [{**column, "type": repr(column["type"])} for column in inspector.get_columns(table)],
            "indexes": inspector.get_indexes(table),
            "foreign keys": inspector.get_foreign_keys(table),
            "unique": inspector.get_unique_constraints(table),
        }
        described[table] = {
            "primary key": inspector.get_pk_constraint(table),
            **{kind: sorted(map(repr, rows)) for kind, rows in found.items()},
        }
        if connection.dialect.name == "sqlite":
            query = text("SELECT sql FROM sqlite_master WHERE name = :table")
            written = str(connection.execute(query, {"table": table}).scalar_one())
            described[table]["options"] = [each in written for each in ("AUTOINCREMENT", "WITHOUT ROWID")]
    return described


def test_a_file_that_was_moved_away_is_not_made_again(tmp_path: Path) -> None:
    """A second connection of an open catalog fails while its file is away, and works once it is back."""
    file = tmp_path / "catalog.sqlite3"
    with Catalog.open(file) as catalog:
        away = file.rename(tmp_path / "away.sqlite3")
        with catalog.database.reading():
            with pytest.raises(StorageError), catalog.database.reading():
                pass
            assert not file.exists()
            away.rename(file)
            with catalog.database.reading() as connection:
                assert applied(connection)


def test_migrations_make_what_a_new_catalog_has(catalog_place: str | Path) -> None:
    """A catalog migrated through every version has the schema of a new one and of the table models."""
    database = Database(catalog_place)
    with database.writing() as connection:
        scripts.upgrade(connection)
        assert NEWEST == applied(connection)
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert [] == compare_metadata(context, Base.metadata)
        migrated = schema_of(connection)
        scripts.downgrade(connection, "base")
    with database.writing() as connection:
        make(connection)
        assert NEWEST == applied(connection)
        assert migrated == schema_of(connection)
    database.close()


def test_a_reader_sees_one_state(catalog_place: str | Path) -> None:
    """A read transaction does not see what others commit meanwhile; the next one does."""
    count = text("SELECT count(*) FROM papers")
    with Catalog.open(catalog_place) as catalog, Catalog.open(catalog_place) as other:
        with catalog.database.reading() as connection:
            assert 0 == connection.execute(count).scalar()
            other.add([titled("a")])
            assert 0 == connection.execute(count).scalar()
        assert 1 == catalog.count()


def test_migrations_go_up_down_and_up_again(catalog_place: str | Path) -> None:
    """Migrating down to nothing and up again gives a catalog that works."""
    with Catalog.open(catalog_place) as catalog:
        catalog.add([titled("a")])
        with catalog.database.writing() as connection:
            scripts.downgrade(connection, "base")
        with catalog.database.reading() as connection:
            assert set(inspect(connection).get_table_names()) <= {"alembic_version", "sqlite_sequence"}
    with Catalog.open(catalog_place) as catalog:
        assert catalog.count() == 0
        assert catalog.add([titled("a")]).n_new == 1


def test_failed_migration_leaves_the_schema_as_it_was(catalog_place: str | Path) -> None:
    """A migration that fails halfway rolls back the tables that it had already made."""
    database = Database(catalog_place)
    with database.writing() as connection:
        connection.execute(text("CREATE TABLE sentences (mine INTEGER)"))
    with pytest.raises(StorageError, match="sentences"):
        Catalog.open(catalog_place)
    with database.reading() as connection:
        assert set(inspect(connection).get_table_names()) == {"sentences"}
    database.close()


def test_catalog_of_a_newer_version_is_refused(catalog_place: str | Path) -> None:
    """A catalog with a newer schema is refused, and the message says to upgrade."""
    with Catalog.open(catalog_place) as catalog, catalog.database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StorageError, match=r"schema 9999.*upgrade this one"):
        Catalog.open(catalog_place)


def run_python(code: str, *arguments: str) -> "subprocess.Popen[str]":
    """Start another process that runs ``code`` with this source tree."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


OPEN_AND_ADD = """
import sys
from indexer.catalog.catalog import Catalog
from models.types import Paper, Sentence
print("ready", flush=True)
sys.stdin.readline()
with Catalog.open(sys.argv[1]) as catalog:
    papers = [Paper(str(i), "", "One.", (Sentence("One.", 0, 4),)) for i in range(200)]
    print(catalog.add(papers[::-1] if sys.argv[2] == "0" else papers).n_new)
"""


@pytest.mark.system
def test_several_processes_may_open_and_add_at_once(catalog_place: str | Path) -> None:
    """Processes that create one catalog and add the same papers at once succeed; each paper is added once."""
    processes = [run_python(OPEN_AND_ADD, str(catalog_place), str(number)) for number in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outcomes = [process.communicate(timeout=30) for process in processes]
    assert [errors for _, errors in outcomes] == ["", "", ""]
    assert sorted(int(output) for output, _ in outcomes) == [0, 0, 200]
    with Catalog.open(catalog_place) as catalog:
        assert catalog.count() == 200


def test_several_threads_may_open_at_once(tmp_path: Path) -> None:
    """Threads of one process can create the same catalog or different catalogs at the same time."""
    counts: list[int] = []
    barrier = threading.Barrier(8)

    def open_and_count(number: int) -> None:
        barrier.wait()
        with Catalog.open(tmp_path / f"{number}.sqlite3") as catalog:
            counts.append(catalog.count())

    threads = [threading.Thread(target=open_and_count, args=[i // 2]) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [0] * 8


def test_opening_waits_for_another_that_uses_the_new_file(tmp_path: Path) -> None:
    """Opening a file that another connection is just creating waits for it instead of failing at once."""
    file = tmp_path / CATALOG_FILE
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.1, other.close)
    timer.start()
    with Catalog.open(file) as catalog:
        assert catalog.count() == 0
    timer.join()


def test_what_was_acknowledged_survives_a_kill(catalog_place: str | Path) -> None:
    """A process killed right after ``add`` returned loses nothing."""
    code = OPEN_AND_ADD + "    import os; os.kill(os.getpid(), 9)\n"
    process = run_python(code, str(catalog_place), "0")
    process.communicate("go\n", timeout=30)
    assert process.returncode == -signal.SIGKILL
    with Catalog.open(catalog_place) as catalog:
        assert catalog.count() == 200


def test_readers_do_not_wait_for_the_writer(catalog: Catalog) -> None:
    """While one transaction writes, readers see the state before it without waiting."""
    catalog.add([titled("a")])
    with catalog.database.writing() as connection:
        connection.execute(text("DELETE FROM current_papers"))
        assert catalog.count() == 1
    assert catalog.count() == 0


def test_sqlite_keeps_what_it_acknowledges(tmp_path: Path) -> None:
    """Each connection syncs at every commit, uses a write-ahead log and enforces foreign keys."""
    with Catalog.open(tmp_path / CATALOG_FILE) as catalog, catalog.database.reading() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}


def test_full_disk_is_named_and_nothing_is_half_written(tmp_path: Path) -> None:
    """A disk that fills up during ``add`` raises a StorageError saying so, and the catalog is unchanged."""
    with Catalog.open(tmp_path / CATALOG_FILE) as catalog:
        catalog.add([titled("a")])
        limit = "PRAGMA max_page_count = 20"
        event.listen(catalog.database.engine, "begin", lambda connection: connection.exec_driver_sql(limit))
        with pytest.raises(StorageError, match="full; free disk space"):
            catalog.add([titled(str(i), "A long title " * 20) for i in range(1000)])
        assert catalog.count() == 1
        assert paper_in(catalog, "a") == titled("a")


def test_failed_writing_says_whether_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If SQLite cannot use the disk, the remedy is to free space if there is none, else to check the disk."""
    with Catalog.open(tmp_path / CATALOG_FILE) as catalog:
        for free, remedy in ((2**30, "check the disk"), (0, "free disk space")):
            monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
            with pytest.raises(StorageError, match=f"I/O error; {remedy}"), small_files(4096):
                catalog.add([titled(str(i), "A long title " * 20) for i in range(100)])
        assert catalog.count() == 0


def test_read_only_catalog_can_be_read(tmp_path: Path) -> None:
    """A catalog opened read-only can be read; adding to it raises an error with the remedy."""
    file = tmp_path / CATALOG_FILE
    with Catalog.open(file) as catalog:
        catalog.add([titled("a")])
    with Catalog.open(f"sqlite:///file:{file}?mode=ro&uri=true") as catalog:
        assert paper_in(catalog, "a") == titled("a")
        with pytest.raises(StorageError, match=r"readonly database; .*make the file and its folder writable"):
            catalog.add([titled("b")])


def garbage(folder: Path) -> Path:
    """Return a file that is not a database."""
    file = folder / CATALOG_FILE
    file.write_bytes(b"not a database " * 1000)
    return file


def damaged(folder: Path) -> Path:
    """Return a catalog file that is overwritten in the middle."""
    file = folder / CATALOG_FILE
    with Catalog.open(file) as catalog:
        catalog.add([titled(str(i), "title " * 20) for i in range(100)])
    content = bytearray(file.read_bytes())
    content[4096:-4096] = b"\xff" * (len(content) - 8192)
    file.write_bytes(content)
    return file


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (garbage, "not a database; name the catalog's file; if this is it, use a backup"),
        (damaged, "malformed; use a backup, or index the corpus into a new folder"),
        (lambda folder: folder, "unable to open database file; name a file in a folder that exists"),
        (lambda folder: folder / "missing" / CATALOG_FILE, "unable to open database file; name a file"),
    ],
)
def test_unusable_file_is_named_with_the_remedy(
    tmp_path: Path, make: Callable[[Path], Path], reason: str
) -> None:
    """A file that SQLite cannot use raises a StorageError with its path and the remedy."""
    file = make(tmp_path)
    with pytest.raises(StorageError, match=reason) as caught, Catalog.open(file) as catalog:
        catalog.count()
    assert str(file) in str(caught.value)


def test_file_that_another_process_keeps_busy_is_named(tmp_path: Path) -> None:
    """A writer gives up after the busy timeout and says why."""
    file = tmp_path / CATALOG_FILE
    with Catalog.open(file, busy_timeout_s=0) as catalog:
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="locked; another process is still writing"):
            catalog.add([titled("a")])
        other.close()
        assert catalog.add([titled("a")]).n_new == 1


def test_a_writer_that_waits_for_no_time_gives_up_at_once(catalog_place: str | Path) -> None:
    """With a busy timeout of 0, a writer fails while another transaction writes, in either database."""
    with Catalog.open(catalog_place) as other, Catalog.open(catalog_place, busy_timeout_s=0) as catalog:
        with other.database.writing(), pytest.raises(StorageError, match="another process is still writing"):
            catalog.add([titled("a")])
        assert catalog.add([titled("a")]).n_new == 1


@pytest.mark.parametrize("url", ["mysql://u:secret@h/d", "postgresql://u:secret@h:port/d", "://secret"])
def test_url_of_another_kind_is_refused(url: str) -> None:
    """A URL of neither SQLite nor PostgreSQL is refused without repeating its password."""
    with pytest.raises(InputError, match="expected a file path") as caught:
        Catalog.open(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "akin:quiet@secret@127.0.0.1:1/papers",
        "akin:quiet@secret/x@127.0.0.1:1/papers",
        "akin:quiet@secret?x@127.0.0.1:1/papers",
        "akin:quiet@secret:x@127.0.0.1:1/papers",
        "quiet@secret:x@127.0.0.1:1/papers",
        "127.0.0.1:1/papers?user=akin&password=quiet@secret",
    ],
)
def test_url_with_an_unescaped_at_is_refused(address: str) -> None:
    """A URL whose password may have an unescaped @ is refused without any part of it, before a connection."""
    with pytest.raises(InputError, match="as %40") as refused:
        Catalog.open(f"postgresql://{address}")
    assert "quiet" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_file_may_have_any_number_of_at(tmp_path: Path) -> None:
    """A URL of a SQLite file may have @ in its path."""
    Catalog.open(f"sqlite:///{tmp_path}/a@b@c.sqlite").close()
    assert (tmp_path / "a@b@c.sqlite").is_file()


@pytest.mark.parametrize("address", ["a%40b:p%40%2F@127.0.0.1:1/papers", "127.0.0.1:1/papers?password=p%40"])
def test_escaped_passwords_are_read(address: str) -> None:
    """A URL whose user and password have an escaped @ leads to the right server."""
    pytest.importorskip("psycopg", reason="no psycopg: pip install akin[postgres]")
    with pytest.raises(StorageError, match=r"papers on 127\.0\.0\.1: connection failed"):
        Catalog.open(f"postgresql://{address}")


def test_server_that_is_away_is_named_without_its_password() -> None:
    """A PostgreSQL server that does not answer raises a StorageError with its address but no password."""
    pytest.importorskip("psycopg", reason="no psycopg: pip install akin[postgres]")
    with pytest.raises(StorageError, match="check that the database server runs") as caught:
        Catalog.open("postgresql://akin:secret@127.0.0.1:1/papers")
    assert "secret" not in str(caught.value)
    assert "papers on 127.0.0.1" in str(caught.value)


def test_missing_driver_names_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL without its driver raises an error that says what to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingPackageError, match=r'pip install "akin\[postgres\]=='):
        Catalog.open("postgresql://localhost/papers")


def test_empty_environment_is_enough() -> None:
    """Importing the catalog works with an almost empty environment and gives no warning."""
    code = "import indexer.catalog.catalog, indexer.catalog.migrations.scripts"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""


@pytest.mark.parametrize("begun", [False, True])
def test_a_list_that_breaks_off_leaves_nothing_open(postgres_url: str, *, begun: bool) -> None:
    """If the server ends the connection, the cursor of a list is closed; otherwise the driver would warn."""
    with Catalog.open(postgres_url) as catalog, Catalog.open(postgres_url) as other:
        catalog.add([titled("a")])

        def broken_off() -> None:
            with catalog.database.reading() as connection, other.database.reading() as ending:
                own = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
                listed = changed_after(connection, 0)
                if begun:
                    next(listed)
                ending.exec_driver_sql(f"SELECT pg_terminate_backend({own}, 5000)")
                if begun:
                    listed.close()  # without reading the rest
                    connection.exec_driver_sql("SELECT 1")
                list(listed)

        with pytest.raises(StorageError):
            broken_off()
        gc.collect()  # a cursor left open would give a warning now


def test_a_writer_sees_what_was_committed_while_it_waited(postgres_url: str) -> None:
    """Writers read what others committed, whatever isolation a database or role has by default."""
    options = r"-c default_transaction_isolation=repeatable\ read"
    url = make_url(postgres_url).update_query_dict({"options": options})
    database = Database(url.render_as_string(hide_password=False))
    with database.writing() as connection:
        assert "read committed" == connection.execute(text("SHOW transaction_isolation")).scalar_one()
    with database.reading() as connection:
        assert "repeatable read" == connection.execute(text("SHOW transaction_isolation")).scalar_one()
    database.close()


def test_options_in_the_url_are_kept(postgres_url: str) -> None:
    """Options in the URL (a schema, timeouts) are kept, and the default lock timeout applies with them."""
    url = make_url(postgres_url)
    database = Database(postgres_url)
    with database.writing() as connection:
        connection.execute(text("CREATE SCHEMA akin2"))
    database.close()
    for options in ("-csearch_path=akin2", ["-csearch_path=akin2", "-c statement_timeout=77s"]):
        given = url.update_query_dict({"options": options}).render_as_string(hide_password=False)
        with Catalog.open(given) as catalog, catalog.database.reading() as connection:
            assert "akin2" == connection.execute(text("SELECT current_schema()")).scalar_one()
            assert "30s" == connection.execute(text("SHOW lock_timeout")).scalar_one()
            assert set(Base.metadata.tables) < set(inspect(connection).get_table_names("akin2"))
            assert [] == inspect(connection).get_table_names("public")
            timeout = connection.execute(text("SHOW statement_timeout")).scalar_one()
            assert ("0" if isinstance(options, str) else "77s") == timeout
