"""Tests of API keys: how they are stored and expire, and the commands of `akin keys`."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs
from typer.testing import CliRunner

from akin.cli.app import app
from indexer.catalog.catalog import Catalog
from indexer.catalog.migrations import migrate, open_database, scripts
from indexer.files.data_folder import CATALOG_FILE
from models.errors import InputError, StorageError
from service.access.api_keys import ApiKey, Keys, Scope, matching
from service.access.keys import KeyRing
from tests.support.servers.patience import soon


@pytest.fixture
def keys(catalog_place: str | Path) -> Iterator[Keys]:
    """Yield the keys of an empty catalog."""
    with Keys.open(catalog_place) as keys:
        yield keys


def by_id(keys: Keys) -> dict[str, ApiKey]:
    """Return every key by its id."""
    return {key.id: key for key in keys.all()}


def test_a_key_is_256_random_bits(keys: Keys) -> None:
    """A token has its id and 43 characters of base64, and no two are the same."""
    tokens = {keys.create("a", scope=Scope.READ, expires_days=None).token for _ in range(20)}
    assert 20 == len(tokens)
    assert all(re.fullmatch(r"akin_[0-9a-f]{10}_[A-Za-z0-9_-]{43}", token) for token in tokens)


def test_the_database_never_holds_a_key(keys: Keys) -> None:
    """The database stores neither the token nor its secret part, only the hash."""
    made = keys.create("reader", scope=Scope.READ, expires_days=30)
    secret = made.token.split("_", 2)[2]
    with keys.database.reading() as connection:
        stored = " ".join(map(str, connection.execute(text("SELECT * FROM keys")).one()))
    assert secret not in stored
    assert made.key.secret_hash in stored


def test_only_the_token_itself_matches(keys: Keys) -> None:
    """A token only matches unchanged: no other character, id or additional text."""
    one = keys.create("one", scope=Scope.READ, expires_days=None)
    other = keys.create("other", scope=Scope.READ, expires_days=None)
    known = by_id(keys)
    assert one.key == matching(one.token, known)
    changed = one.token[:-1] + ("A" if one.token[-1] != "A" else "B")
    swapped = one.token.replace(one.key.id, other.key.id)
    for wrong in (changed, swapped, one.token + "\n", f" {one.token}", one.token[5:], "", "akin__", "é"):
        assert matching(wrong, known) is None


def test_a_key_ends_when_it_expires(keys: Keys) -> None:
    """A key for one day is usable until its last second, a key without expiry always."""
    day = keys.create("day", scope=Scope.READ, expires_days=1).key
    ever = keys.create("ever", scope=Scope.READ, expires_days=None).key
    assert day.usable(day.created_at + 86_399.0)
    assert not day.usable(day.created_at + 86_400.0)
    assert ever.usable(day.created_at + 1e9)


def test_a_revoked_key_stays_on_record(keys: Keys) -> None:
    """Revoking a name ends all keys of that name but keeps their rows; repeating it changes nothing."""
    first, second, other = (keys.create(name, scope=Scope.READ, expires_days=None).key for name in "aab")
    revoked = keys.revoke("a")
    assert {first.id, second.id} == {key.id for key in revoked}
    assert not any(key.usable(float(key.created_at)) for key in revoked)
    assert by_id(keys)[other.id] == other
    assert revoked == keys.revoke("a")
    with pytest.raises(InputError, match="akin keys list"):
        keys.revoke("nobody")
    with pytest.raises(InputError, match=f"name '{'x' * 60}';"):  # a long name is cut
        keys.revoke("x" * 100)


def test_a_key_is_renewed_unless_it_is_revoked(catalog_place: str | Path) -> None:
    """Renewing lets a key, also an expired one, be valid for longer, never for less; revoked keys stay so."""
    now = 1_000_000.0
    with Keys(open_database(catalog_place), clock=lambda: now) as keys:
        old, ever, revoked = (
            keys.create("a", scope=Scope.READ, expires_days=days).key for days in (1, None, 1)
        )
        keys.revoke(revoked.id)
        now += 2 * 86_400
        assert not by_id(keys)[old.id].usable(now)
        for days, left in ((10, 10), (5, 10)):
            assert {old.id, ever.id} == {key.id for key in keys.renew("a", expires_days=days)}
            assert now + left * 86_400 == by_id(keys)[old.id].expires_at
        assert ever == by_id(keys)[ever.id]
        (forever,) = keys.renew(old.id, expires_days=None)
        assert (None, True) == (forever.expires_at, forever.usable(1e12))
        assert not by_id(keys)[revoked.id].usable(now)
        with pytest.raises(InputError, match="is revoked, and stays so"):
            keys.renew(revoked.id, expires_days=1)
        with pytest.raises(InputError, match="akin keys list"):
            keys.renew("nobody", expires_days=1)


def test_a_running_service_announces_that_a_key_expires(tmp_path: Path) -> None:
    """The log names, once, each usable key that expires within 30 days, and how to renew it."""
    place = tmp_path / CATALOG_FILE
    with Keys.open(place) as keys:
        soon_over = keys.create("a", scope=Scope.READ, expires_days=29).key
        keys.create("b", scope=Scope.READ, expires_days=31)
        keys.create("c", scope=Scope.READ, expires_days=None)
        keys.revoke(keys.create("d", scope=Scope.READ, expires_days=1).key.id)
        with capture_logs() as logs, KeyRing(place, refresh_s=0.01).refreshing():
            soon(lambda: logs)
            later = keys.create("e", scope=Scope.READ, expires_days=2).key
            soon(lambda: len(logs) > 1)
    assert [("key_expires_soon", key.id) for key in (soon_over, later)] == [
        (each["event"], each["key"]) for each in logs
    ]
    assert f"akin keys renew {soon_over.id} --data DIR" == logs[0]["remedy"]


def test_a_scope_includes_those_before_it() -> None:
    """The scope admin includes ingest, and ingest includes read, but not the reverse."""
    included = [(one, other) for one in Scope for other in Scope if one.includes(other)]
    read, ingest, admin = Scope
    assert [
        (read, read), (ingest, read), (ingest, ingest), (admin, read), (admin, ingest), (admin, admin)
    ] == included  # fmt: skip


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 101, "\x1b[31m"])
def test_a_name_must_be_readable(keys: Keys, name: str) -> None:
    """A name that cannot be shown on one line is refused, and no key is made."""
    with pytest.raises(InputError, match="printable"):
        keys.create(name, scope=Scope.READ, expires_days=1)
    assert [] == keys.all()


def test_an_older_catalog_gets_its_table(catalog_place: str | Path) -> None:
    """A catalog older than keys is refused until it is migrated, and then takes keys."""
    with Catalog.open(catalog_place) as catalog, catalog.database.writing() as connection:
        scripts.downgrade(connection, "0001")
    with pytest.raises(StorageError, match=r"schema 0001.*akin migrate"):
        Keys.open(catalog_place)
    assert "0001" == migrate(catalog_place)
    with Keys.open(catalog_place) as keys:
        assert [] == keys.all()


def run(*arguments: str | Path, status: int = 0) -> tuple[str, str]:
    """Return what a command prints to standard output and to standard error."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    assert status == result.exit_code, result.output
    return result.stdout, result.stderr


def test_the_commands_make_list_and_revoke(tmp_path: Path) -> None:
    """`create` prints the token once, `list` shows the key, `renew` extends it, and `revoke` ends it."""
    printed, notes = run(
        "keys", "create", "my [bold]app", "--scope", "ingest", "--expires-days", "2", "--data", tmp_path
    )
    token = printed.strip()
    assert re.fullmatch(r"akin_\w{10}_[\w-]{43}", token)
    assert token not in notes
    listed, _ = run("keys", "list", "--data", tmp_path)
    assert re.search(r"my \[bold\]app.+ingest.+usable", listed)
    assert token.split("_", 2)[2] not in listed
    renewed, _ = run("keys", "renew", token.split("_")[1], "--expires-days", "0", "--data", tmp_path)
    assert f"Key {token.split('_')[1]} expires never." == renewed.strip()
    run("keys", "revoke", token.split("_")[1], "--data", tmp_path)
    assert "revoked" in run("keys", "list", "--data", tmp_path)[0]
    assert "akin keys list" in run("keys", "revoke", "nobody", "--data", tmp_path, status=1)[1]


def test_the_first_key_is_made_once(tmp_path: Path) -> None:
    """`--first` makes a key only if none of its scope is usable, so compose files can run it each time."""
    create = ("keys", "create", "admin", "--scope", "admin", "--first", "--data", tmp_path)
    run("keys", "create", "a reader", "--data", tmp_path)  # cannot be used to administer
    token = run(*create)[0].strip()
    assert token.startswith("akin_")
    assert ("", True) == ((again := run(*create))[0], "already a valid key with scope admin" in again[1])
    wider = ("keys", "create", "another reader", "--scope", "ingest", "--first", "--data", tmp_path)
    assert "" == run(*wider)[0]
    run("keys", "revoke", "admin", "--data", tmp_path)
    assert token != run(*create)[0].strip() != ""


def test_keys_are_made_where_the_service_looks_for_them(tmp_path: Path) -> None:
    """With `--catalog` keys are made in that database, and no catalog is made in the data folder."""
    place = f"sqlite:///{tmp_path / 'elsewhere.sqlite3'}"
    run("keys", "create", "a", "--data", tmp_path, "--catalog", place)
    with Keys.open(place) as keys:
        assert ["a"] == [key.name for key in keys.all()]
    assert "usable" in run("keys", "list", "--data", tmp_path, "--catalog", place)[0]
    run("keys", "revoke", "a", "--data", tmp_path, "--catalog", place)
    assert "revoked" in run("keys", "list", "--data", tmp_path, "--catalog", place)[0]
    assert not (tmp_path / CATALOG_FILE).exists()


def test_a_key_for_nowhere_is_a_clear_error(tmp_path: Path) -> None:
    """The error for a missing data folder says that it must exist."""
    assert "folder that exists" in run("keys", "create", "a", "--data", tmp_path / "no", status=1)[1]


def test_no_address_but_loopback_without_a_key(tmp_path: Path) -> None:
    """Serving on an address that others can reach is refused as long as no key was created."""
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org", ""):  # noqa: S104 - which is the point
        refused = run("serve", "--data", tmp_path, "--host", host, status=1)[1]
        assert "akin keys create NAME" in refused
    with Keys.open(tmp_path / CATALOG_FILE) as keys:
        keys.create("b", scope=Scope.READ, expires_days=None)
    assert "akin index" in run("serve", "--data", tmp_path, "--host", "0.0.0.0", "--port", "0", status=1)[1]  # noqa: S104 - the same


def test_not_every_web_site_may_use_it_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `AKIN_CORS_ORIGINS=*` serving is refused as long as no key was created; with named origins not."""
    monkeypatch.setattr("akin.cli.serving.serve._serve_on", lambda *_, **__: None)
    serve = ("serve", "--data", tmp_path, "--port", "0")
    monkeypatch.setenv("AKIN_CORS_ORIGINS", "https://a.example")
    run(*serve)
    monkeypatch.setenv("AKIN_CORS_ORIGINS", "https://a.example, *")
    assert "lets every web site" in run(*serve, status=1)[1]
    run(*serve, "--keyless", "off")
    with Keys.open(tmp_path / CATALOG_FILE) as keys:
        keys.create("a", scope=Scope.READ, expires_days=None)
    run(*serve)


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])  # noqa: S104 - the same
def test_without_a_usable_key_it_starts_and_says_so(
    tmp_path: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If all keys are expired or revoked, serving starts on every address and says that it refuses all."""
    noted: list[str] = []
    monkeypatch.setattr(
        "akin.cli.serving.serve._serve_on", lambda *_, notes, **__: noted.extend(map(str, notes))
    )
    with Keys.open(tmp_path / CATALOG_FILE) as keys:
        keys.create("a", scope=Scope.READ, expires_days=None)
        keys.revoke("a")
        long_ago = Keys(keys.database, clock=lambda: 1_000.0)
        long_ago.create("b", scope=Scope.READ, expires_days=1)
    run("serve", "--data", tmp_path, "--host", host, "--port", "0")
    (note,) = noted
    assert note.startswith("All API keys are expired or revoked, so every request is refused.")
