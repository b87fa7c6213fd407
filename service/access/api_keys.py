"""API keys, stored as hashes in the catalog's database."""

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy import ColumnElement, Connection, Update, delete, insert, or_, select, update

from indexer.catalog.database import Database
from indexer.catalog.store import Store
from indexer.catalog.tables import KeyRow, ProfileRow
from models.errors import InputError, KeyRefusedError

MAX_NAME_CHARS: Final = 100
KEY_PREFIX: Final = "akin_"
_SECRET_BYTES: Final = (
    32  # 256 random bits cannot be guessed, so a fast hash hides them as well as a slow one
)
_ID_BYTES: Final = 5
_KEY: Final = re.compile(KEY_PREFIX + r"([0-9a-f]{10})_([A-Za-z0-9_-]{43})")
_DAY_S: Final = 86_400
_SOON_DAYS: Final = 30


class Scope(StrEnum):
    """The permission of a key; each scope includes those before it."""

    READ = "read"
    INGEST = "ingest"
    ADMIN = "admin"

    def includes(self, other: "Scope") -> bool:
        """Return whether a key of this scope may do what requires ``other``."""
        order = list(Scope)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A stored key, with a hash instead of its secret. Times are Unix seconds; ``None``: never."""

    id: str
    name: str
    scope: Scope
    secret_hash: str
    created_at: int
    expires_at: int | None
    revoked_at: int | None

    def usable(self, now: float) -> bool:
        """Return whether the key is accepted at the time ``now``."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def expires_soon(self, now: float) -> bool:
        """Return whether the key is accepted at the time ``now``, but for less than 30 more days."""
        return self.usable(now) and not self.usable(now + _SOON_DAYS * _DAY_S)


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key just created, the only time its secret is known: ``token`` is what its owner sends."""

    token: str
    key: ApiKey


class Keys(Store):
    """The keys of one database; open it with ``Keys.open``.

    Every method raises ``StorageError`` if the database cannot be reached, read or written. ``clock`` gives
    Unix seconds.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(database)
        self._clock = clock

    def create(self, name: str, *, scope: Scope, expires_days: int | None) -> NewKey:
        """Create a key that is valid for ``expires_days`` from now, or until it is revoked.

        Raises:
            InputError: a name that is blank, too long or not printable, or less than one day.
        """
        if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable():
            raise InputError(
                f"the name of a key is {name[:60]!r}, expected 1 to {MAX_NAME_CHARS} printable characters; "
                "say who or what will use it"
            )
        expires_at = self._expiry(expires_days)
        key_id, secret = secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES)
        key = ApiKey(
            id=key_id,
            name=name,
            scope=scope,
            secret_hash=_hashed(secret),
            created_at=int(self._clock()),
            expires_at=expires_at,
            revoked_at=None,
        )
        row = {field: getattr(key, field) for field in ApiKey.__slots__} | {"scope": scope.value}
        with self.database.writing() as connection:
            connection.execute(insert(KeyRow).values(row))
        return NewKey(f"{KEY_PREFIX}{key_id}_{secret}", key)

    def revoke(self, id_or_name: str) -> list[ApiKey]:
        """Revoke the key with this id, or every key with this name; keys revoked before stay unchanged.

        Their saved profiles, which often name people, are deleted, as nobody else can.

        Returns:
            The keys with this id or name, as they are now.

        Raises:
            InputError: there is no such key.
        """
        with self.database.writing() as connection:
            connection.execute(_unrevoked(id_or_name).values(revoked_at=int(self._clock())))
            meant = select(KeyRow.id).where(_meant(id_or_name))
            connection.execute(delete(ProfileRow).where(ProfileRow.owner.in_(meant)))
        return self._named(id_or_name)

    def renew(self, id_or_name: str, *, expires_days: int | None) -> list[ApiKey]:
        """Let the key with this id, or every key with this name, be valid for ``expires_days`` from now.

        Keys that are valid for longer stay unchanged.

        Returns:
            The keys with this id or name that are not revoked, as they are now.

        Raises:
            InputError: there is no such key, or it is revoked, or less than one day.
        """
        until = self._expiry(expires_days)
        sooner = KeyRow.expires_at.is_not(None) if until is None else KeyRow.expires_at < until
        with self.database.writing() as connection:
            connection.execute(_unrevoked(id_or_name).where(sooner).values(expires_at=until))
        renewed = [key for key in self._named(id_or_name) if key.revoked_at is None]
        if not renewed:
            raise InputError(
                f"the key {id_or_name[:60]!r} is revoked, and stays so; create another: `akin keys create`"
            )
        return renewed

    def _expiry(self, days: int | None) -> int | None:
        if days is None:
            return None
        if days < 1:
            raise InputError(f"the key would expire in {days} days; give at least 1")
        return int(self._clock()) + days * _DAY_S

    def _named(self, id_or_name: str) -> list[ApiKey]:
        named = [key for key in self.all() if id_or_name in {key.id, key.name}]
        if not named:
            raise InputError(
                f"no key has the id or name {id_or_name[:60]!r}; `akin keys list` lists all keys"
            )
        return named

    def all(self) -> list[ApiKey]:
        """Return every key ever created, oldest first."""
        columns = [getattr(KeyRow, field) for field in ApiKey.__slots__]
        with self.database.reading() as connection:
            rows = connection.execute(select(*columns).order_by(KeyRow.created_at, KeyRow.id)).all()
        return [ApiKey(**{**row._asdict(), "scope": Scope(row.scope)}) for row in rows]


def matching(token: str, keys: Mapping[str, ApiKey]) -> ApiKey | None:
    """Return the key of ``keys`` (by id) that ``token`` belongs to, usable or not; ``None`` if there is none.

    The id in a token is not secret; the rest is compared in constant time.
    """
    parts = _KEY.fullmatch(token)
    key = None if parts is None else keys.get(parts[1])
    if parts is None or key is None or not hmac.compare_digest(key.secret_hash, _hashed(parts[2])):
        return None
    return key


def expect_not_revoked(connection: Connection, owner: str) -> None:
    """Raise KeyRefusedError if ``owner`` is a revoked key, which services accept for up to a second."""
    revoked = select(KeyRow.id).where(KeyRow.id == owner, KeyRow.revoked_at.is_not(None))
    if connection.execute(revoked).first():
        raise KeyRefusedError("The key was revoked, so nothing is saved for it; give a valid key.")


def _unrevoked(id_or_name: str) -> Update:
    """Return a change of the key with this id, or of every key with this name, unless it is revoked."""
    return update(KeyRow).where(_meant(id_or_name), KeyRow.revoked_at.is_(None))


def _meant(id_or_name: str) -> ColumnElement[bool]:
    return or_(KeyRow.id == id_or_name, KeyRow.name == id_or_name)


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()
