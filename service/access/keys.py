"""The API keys in the memory of the running service, and the caller of each request."""

import ipaddress
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog
from starlette.requests import Request

from models.errors import KeyRefusedError, KeysUnknownError, ScopeMissingError, StorageError
from service.access.api_keys import KEY_PREFIX, ApiKey, Keys, Scope, matching
from service.background import RepeatedTask
from service.context import BACKGROUND_TIMEOUT_S, with_deadline
from service.degradation import Degradation
from service.settings import Keyless
from service.store import LazyStore
from service.timings import DEFAULTS

_MAX_TOKEN_CHARS: Final = 200
_MAKE_KEY: Final = "`akin keys create NAME --data DIR`"
# Most proxies add one of these; one that adds none looks like a client on this machine.
_FORWARDED: Final = re.compile(
    r"forwarded|via|x-forwarded.*|x-real-ip|x-client-ip|x-envoy-.*|cf-connecting-ip|true-client-ip|cdn-loop"
)
_HOW_TO_SEND: Final = "send it as `Authorization: Bearer KEY` or `x-api-key: KEY`"
_UNKNOWN: Final = "The database of the keys cannot be reached, so requests are refused; try again later."
_log = structlog.get_logger(__name__)
KEYS_NOT_READ: Final = Degradation(
    "keys",
    "The database of keys could not be read yet: every request that may need a key gets 503.",
    "Make the database reachable; its error is in the log.",
)
KEYS_NOT_REFRESHED: Final = Degradation(
    "keys",
    "The database of keys cannot be read: new keys are refused, and keys revoked since are still accepted.",
    "Make the database reachable again; its error is in the log.",
)


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: ``name`` tells callers apart (a key's id, or ``local``) and may be logged."""

    name: str
    key: ApiKey | None

    def expect(self, needed: Scope) -> None:
        """Raise ScopeMissingError if the key does not have the scope ``needed``."""
        if self.key is not None and not self.key.scope.includes(needed):
            raise ScopeMissingError(
                f"The key has scope {self.key.scope}, this request needs {needed}; use a key with that scope."
            )


class KeyRing:
    """The keys of a catalog, held in memory and read again every ``refresh_s`` seconds.

    If the database cannot be read for a while, the keys read last stay accepted, and ``degradations`` says
    so; until they were read once, every request is refused. ``place`` is a path or a URL; a file that does
    not exist at the start holds no keys. ``keyless`` is what this machine may do while there are no keys.
    """

    def __init__(
        self,
        place: str | Path,
        *,
        keyless: Keyless = Keyless.READ,
        refresh_s: float = DEFAULTS.keys_refresh_s,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._place = place
        self._clock = clock
        self._keyless = keyless
        self._store = LazyStore(place, Keys.open_existing)
        self._keys: dict[str, ApiKey] = {}
        self._known = False
        self._announced: set[tuple[str, int | None]] = set()
        # In a thread of its own: revocation must not queue behind searches.
        self._refreshing = RepeatedTask(
            self._refresh, every_s=refresh_s, failure=KEYS_NOT_REFRESHED, at_once=False
        )

    @property
    def known(self) -> bool:
        """Whether the keys were read at least once."""
        return self._known

    @property
    def empty(self) -> bool:
        """Whether no key was ever created."""
        return not self._keys

    def any_usable(self) -> bool:
        """Return whether any key would be accepted now."""
        return any(key.usable(self._clock()) for key in self._keys.values())

    def read(self) -> None:
        """Read the keys; raises StorageError."""
        self._keys = {key.id: key for key in with_deadline(BACKGROUND_TIMEOUT_S, self._all)}
        self._known = True

    def _refresh(self) -> None:
        """Read the keys, and log those that expire soon, each once."""
        self.read()
        now = self._clock()
        for key in self._keys.values():
            if key.expires_soon(now) and (key.id, key.expires_at) not in self._announced:
                self._announced.add((key.id, key.expires_at))
                expires = datetime.fromtimestamp(key.expires_at or 0, UTC).date().isoformat()
                remedy = f"akin keys renew {key.id} --data DIR"
                _log.warning("key_expires_soon", key=key.id, expires=expires, remedy=remedy)

    def _all(self) -> Sequence[ApiKey]:
        if self._store.is_there:
            return self._store.get().all()
        if self._keys:  # a copy may be about to replace it
            raise StorageError(f"{self._place}, which holds the keys, is missing; restore it from a backup.")
        return ()

    def read_if_reachable(self) -> None:
        """Read the keys, or leave that for later if they are on a server that is unavailable.

        Raises StorageError for a file that cannot be read.
        """
        try:
            self.read()
        except StorageError as error:
            if isinstance(self._place, Path):
                raise
            self._refreshing.outage.begin(str(error))

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    @contextmanager
    def refreshing(self) -> Iterator[None]:
        """Read the keys now, as ``read_if_reachable`` does, and then repeatedly until the context ends."""
        self.read_if_reachable()
        try:
            with self._refreshing:
                yield
        finally:
            self.close()

    def stop(self) -> None:
        """Begin nothing more; ``refreshing`` then ends soon."""
        self._refreshing.stop()

    def degradations(self) -> list[Degradation]:
        """Return the degradation if the keys are outdated or were never read."""
        return self._refreshing.degradations() if self._known else [KEYS_NOT_READ]

    def admit(self, request: Request, needed: Scope) -> Caller:
        """Return the caller of ``request``, who has the scope ``needed``.

        Raises KeyRefusedError, ScopeMissingError, KeysUnknownError.
        """
        caller = self.identify(request, needed)
        caller.expect(needed)
        return caller

    def identify(self, request: Request, needed: Scope) -> Caller:
        """Return the caller of ``request``, whatever the scope of the key.

        While there are no keys, ``keyless`` decides whether a request that requires the scope ``needed`` is
        accepted, and every caller on another machine is refused. Raises KeyRefusedError, KeysUnknownError.
        """
        if not self._known:
            raise KeysUnknownError(_UNKNOWN)
        if self.empty:
            self._expect_keyless(request, needed)
            return Caller("local", None)
        token = _token(request)
        key = matching(token, self._keys)
        if key is None or not key.usable(self._clock()):
            raise KeyRefusedError(
                f"{'An unknown, expired or revoked key' if token else 'No key'} was given, expected a valid "
                f"key; {_HOW_TO_SEND}."
            )
        return Caller(key.id, key)

    def expect_readable(self, request: Request, owner: str) -> None:
        """Raise KeyRefusedError unless ``owner``, the id of a key, is that of a valid key.

        An empty ``owner`` stands for the sender of ``request`` while there are no keys. Raises
        KeysUnknownError.
        """
        if not owner:
            self.admit(request, Scope.READ)
            if not self.empty:
                raise KeyRefusedError(
                    "This was created before the service had keys; create it again with a key."
                )
            return
        if not self._known:
            raise KeysUnknownError(_UNKNOWN)
        key = self._keys.get(owner)
        if key is None or not key.usable(self._clock()):
            raise KeyRefusedError(
                "The key that created this is expired or revoked; let an expired one be renewed, or "
                "create this again with another key."
            )

    def _expect_keyless(self, request: Request, needed: Scope) -> None:
        """Raise KeyRefusedError unless a request without a key may do what requires ``needed``."""
        if self._keyless is Keyless.OFF:
            raise KeyRefusedError(
                f"This service requires an API key and has none yet; create one: {_MAKE_KEY}."
            )
        _expect_local(request)
        if needed is not Scope.READ and self._keyless is not Keyless.WRITE:
            raise KeyRefusedError(
                f"This service has no API keys and is therefore read-only; create a key, {_MAKE_KEY}, or "
                "let this machine write without one: AKIN_KEYLESS=write."
            )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address to listen on."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _token(request: Request) -> str:
    """Return the key that was sent, or "".

    A bearer token of another kind, which a proxy may pass on beside the key it adds, does not count.
    """
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    bearer = credentials.strip() if scheme.lower() == "bearer" else ""
    added = request.headers.get("x-api-key", "").strip()
    token = added if added and not bearer.startswith(KEY_PREFIX) else bearer
    return token if len(token) <= _MAX_TOKEN_CHARS else "too long"


def _expect_local(request: Request) -> None:
    """Raise KeyRefusedError unless a request was sent from this machine, by a client that is not a proxy.

    A client without an address uses a Unix socket. A web site could reach this machine through its reader's
    browser, under a host name that the site's owner points here: such names have dots. A proxy on this
    machine passes on requests of other machines, so a request with a proxy's headers is refused.
    """
    address = "" if request.client is None else request.client.host
    host = request.headers.get("host", "")
    try:
        local = ipaddress.ip_address(address).is_loopback
    except ValueError:
        local = True
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    forwarded = any(map(_FORWARDED.fullmatch, request.headers))
    if not local or forwarded or ("." in name and not is_loopback(name)):
        raise KeyRefusedError(
            "This service has no API keys yet, so it accepts requests only from its own machine and not "
            f"through a proxy; create a key there: {_MAKE_KEY}."
        )
