"""The file system of a folder: mounts as Linux lists them, and collections on read-only ones."""

import errno
import fcntl
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from indexer.catalog.catalog import Catalog
from indexer.catalog.sqlite import is_frozen, sqlite_connection
from indexer.files.data_folder import CATALOG_FILE, DataFolder
from indexer.files.file_system import limits_of, network_kind
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.errors import StorageError
from models.types import Paper, Sentence
from tests.support.builds import ROOT, build_quietly, many_papers, papers_in, write_corpus
from tests.support.trials.crashes import OPERATIONS, make_collection, state_of

MOUNTS = r"""22 1 0:21 / / rw,relatime - ext4 /dev/vda rw
31 22 0:40 / /srv/papers rw,relatime shared:1 - nfs4 10.0.0.1:/papers rw,vers=4.2
32 31 0:41 / /srv/papers/fast rw - xfs /dev/vdb rw
33 22 0:42 / /srv/my\040papers rw - cifs //host/papers rw
34 22 0:43 / /srv/over rw - ext4 /dev/vdc rw
35 22 0:44 / /srv/over rw - nfs 10.0.0.1:/over rw
"""


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/srv/papers", "nfs4"),
        ("/srv/papers/a/collection", "nfs4"),
        ("/srv/papers/fast/collection", None),
        ("/srv/papers-of-mine", None),
        ("/srv/my papers/a", "cifs"),
        ("/srv/over/a", "nfs"),
        ("/home", None),
    ],
)
def test_a_folder_is_on_what_is_mounted_nearest_above_it(
    folder: str, expected: str | None, tmp_path: Path
) -> None:
    """Network file systems are named by the nearest mount above a folder, and their limits are reported."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert expected == network_kind(Path(folder), mounts)
    assert ("folder_on_network" in limits_of(Path(folder), mounts)) == (expected is not None)


def test_where_mounts_are_not_listed_no_kind_is_known(tmp_path: Path) -> None:
    """Without a list of mounts, as on other systems than Linux, no kind is known."""
    assert network_kind(tmp_path, tmp_path / "none") is None


_READ_ONLY = """
import sys
from pathlib import Path
from structlog.testing import capture_logs
from typer.testing import CliRunner
from akin.cli.app import app
from indexer.collection.maintenance.backup import back_up
from indexer.catalog.catalog import Catalog
from indexer.files.data_folder import CATALOG_FILE
from indexer.files.file_system import limits_of
from models.errors import StorageError
from tests.support.clients import client_of

data, corpus, target = map(Path, sys.argv[1:])
limits = limits_of(data)
assert ["folder_read_only"] == list(limits)
indexed = CliRunner().invoke(app, ["index", str(corpus), "--data", str(data)])
assert f"{data}: {limits['folder_read_only']}." in indexed.output, (indexed.output, indexed.exception)
with capture_logs() as logged, client_of(data, device="cpu"):
    pass
assert list(limits.values()) == [each["effect"] for each in logged if each["event"] in limits], logged
for command in (["status"], ["papers", "--count"], ["keys", "list"]):
    done = CliRunner().invoke(app, [*command, "--data", str(data)])
    assert 0 == done.exit_code, (command, done.output, done.exception)
refused = CliRunner().invoke(app, ["delete", "p1", "--data", str(data)])
assert "read-only" in refused.output + str(refused.exception), (refused.output, refused.exception)
assert 20 == back_up(data, target, catalog=data / CATALOG_FILE).n_papers
print("as a reader finds it")
"""


def read_only(data: Path, code: str, *arguments: str) -> str:
    """Return the output of a program that sees ``data`` mounted read-only; skip if nothing can be mounted."""
    namespace = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    mounted = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    if (
        not shutil.which("unshare")
        or subprocess.run([*namespace, "sh", "-c", mounted, str(data), "true"], check=False).returncode
    ):
        pytest.skip("this machine lets this user mount nothing for itself")
    command = [*namespace, "sh", "-c", mounted, str(data), sys.executable, "-c", code, str(data), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def test_a_collection_on_a_read_only_file_system_is_read(tmp_path: Path, hashing: Encoder) -> None:
    """A collection on a read-only file system can be read and backed up; deleting is refused.

    `akin index` and a service say at their start what is not possible there.
    """
    data, corpus = tmp_path / "data", write_corpus(tmp_path / "c.jsonl", many_papers(20))
    build_quietly(corpus, data, hashing)
    assert {} == limits_of(data)
    assert "as a reader finds it" == read_only(data, _READ_ONLY, str(corpus), str(tmp_path / "backup"))


def flock_of_nfs(descriptor: int, operation: int, flock: Callable[[int, int], None] = fcntl.flock) -> None:
    """Lock as Linux does on NFS: as the file is opened (flock(2)); a folder only for this machine."""
    mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    refused = {fcntl.LOCK_EX: os.O_RDONLY, fcntl.LOCK_SH: os.O_WRONLY}
    if mode == refused.get(operation & ~fcntl.LOCK_NB) and not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    flock(descriptor, operation)


def test_every_writer_locks_as_nfs_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexing, adding, deleting, merging, rollback and purging work with the locks of NFS."""
    monkeypatch.setattr(fcntl, "flock", flock_of_nfs)
    data = make_collection(tmp_path)
    for name in ("index", "POST", "DELETE", "delete", "merge", "rollback", "compact", "purge"):
        before = DataFolder(data).generations()
        OPERATIONS[name](data, lambda: None)
        assert name == "rollback" or before[-1] < DataFolder(data).generations()[-1]
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert {*papers_in(catalog)} == {*state_of(open_snapshot(data))}
    assert "000001" not in DataFolder(data).generations()  # so some were removed


_NOT_THEIRS = """
import json
import os
import sys
from pathlib import Path
from typer.testing import CliRunner
from akin.cli.app import app

def status():
    return CliRunner().invoke(app, ["status", "--data", sys.argv[1], "--json"])

first = status()  # whatever is imported late is imported now
if not os.geteuid():
    os.setresuid(65534, 65534, 65534)
for path in [Path(sys.argv[1]), *Path(sys.argv[1]).rglob("*")]:
    assert not os.access(path, os.W_OK), path
second = status()
assert (first.exit_code, second.exit_code) == (0, 0), (second.output, second.exception)
shown = [json.loads(each.output)["segments"] for each in (first, second)]
assert shown[0] == shown[1] != []
"""


def test_a_collection_that_is_not_theirs_to_write_is_read(hashing: Encoder) -> None:
    """A user without write permission sees the status of a collection."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        build_quietly(write_corpus(Path(folder) / "c.jsonl", many_papers(5)), data, hashing)
        for path in [Path(folder), *Path(folder).rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            command = [sys.executable, "-c", _NOT_THEIRS, str(data)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        finally:
            for path in [Path(folder), *Path(folder).rglob("*")]:
                path.chmod(0o755)
        assert not done.returncode, done.stderr


def counted_by_another_user(place: Path) -> str:
    """Return the number of papers that a user without special rights reads in a catalog, or the error."""
    command = [sys.executable, "-c", _COUNTED, str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def test_a_catalog_that_is_in_use_is_read_by_who_may_not_write_it() -> None:
    """A user without write permission reads a catalog in use, with the latest papers from its log."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / CATALOG_FILE
        Path(folder).chmod(0o755)
        with Catalog.open(place) as catalog:
            catalog.add([Paper("one", "One", "One.", (Sentence("One.", 0, 4),))])
            for path in Path(folder).iterdir():
                path.chmod(0o444)
            assert "1" == counted_by_another_user(place)


def test_a_catalog_that_may_not_be_read_says_so() -> None:
    """If a user may not read the file or its folder, the error names the file and the missing permission."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / CATALOG_FILE
        Catalog.open(place).close()
        for rights_to_folder, rights_to_file, expected in (
            (0o000, 0o444, f"{place}: permission denied; give the current user"),
            (0o755, 0o000, "let this user read the file"),
            (0o755, 0o444, "0"),
        ):
            place.chmod(rights_to_file)
            Path(folder).chmod(rights_to_folder)
            try:
                assert expected in counted_by_another_user(place)
            finally:
                Path(folder).chmod(0o755)


_COUNTED = """
import os
import sys
from indexer.catalog.catalog import Catalog
from models.errors import StorageError

if not os.geteuid():
    os.setresuid(65534, 65534, 65534)
try:
    with Catalog.open_existing(sys.argv[1]) as catalog:
        print(catalog.count())
except StorageError as error:
    print(error)
"""


_WRITTEN_ELSEWHERE = """
import sys
from pathlib import Path
from indexer.catalog.catalog import Catalog
from indexer.files.data_folder import CATALOG_FILE
from models.errors import StorageError

try:
    with Catalog.open_existing(Path(sys.argv[1]) / CATALOG_FILE) as catalog:
        catalog.last_change()
except StorageError as error:
    print(error)
"""


def test_a_link_to_a_catalog_is_read_like_its_file(tmp_path: Path) -> None:
    """A catalog in use is read with locks through a link too: SQLite keeps its log beside the file."""
    place = tmp_path / CATALOG_FILE
    link = tmp_path / "link.sqlite3"
    link.symlink_to(place)
    with Catalog.open(place) as catalog, pytest.MonkeyPatch.context() as patch:
        catalog.add([Paper("one", "One", "One.", (Sentence("One.", 0, 4),))])
        patch.setattr("indexer.catalog.sqlite.is_read_only", lambda _: True)
        assert (False, False) == (is_frozen(place), is_frozen(link))
        place.with_name(f"{CATALOG_FILE}-shm").unlink()
        assert (True, True) == (is_frozen(place), is_frozen(link))
        with pytest.raises(StorageError, match="another process has written to it"):
            sqlite_connection(link)


def test_a_catalog_that_is_written_elsewhere_is_not_read_from_a_read_only_file_system(
    tmp_path: Path, hashing: Encoder
) -> None:
    """A catalog whose log cannot be read on a read-only file system raises an error with the remedy."""
    data = tmp_path / "data"
    build_quietly(write_corpus(tmp_path / "c.jsonl", many_papers(5)), data, hashing)
    (data / "catalog.sqlite3-wal").write_bytes(b"of another process")
    assert "keep the catalog in PostgreSQL" in read_only(data, _WRITTEN_ELSEWHERE)
