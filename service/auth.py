"""Who may do what: the API keys as the running service knows them, and what each request needs."""

import asyncio
import ipaddress
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import structlog
from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.types import Scope as ASGIScope

from indexer.keys import ApiKey, Keys, Scope, matching
from models.errors import KeyRefusedError, KeysUnknownError, ScopeMissingError, StorageError
from service.deadline import ASIDE_S, within
from service.degradation import Degradation

REFRESH_S: Final = 1.0  # how often keys are read anew: a revoked one is refused at most so much later
# Answered without a key: health, what describes the interface without telling of the collection, and the page
# whose script asks for batches.
OPEN_PATHS: Final = frozenset(
    {
        "/livez",
        "/readyz",
        "/openapi.json",
        "/docs",
        "/docs/start.js",
        "/docs/swagger-ui.css",
        "/docs/swagger-ui-bundle.js",
        "/batch",
    }
)
# The pages that people see. Before anything is asked on them they are open too, and tell of the collection
# only whom the door would let in.
PAGE_PATHS: Final = frozenset({"/", "/batch"})
# Style sheets and scripts of the pages.
STATIC_PATH: Final = "/static/"
# Answered to whoever has a key, however busy the service is: they are looked at most when it is.
UNQUEUED_PATHS: Final = frozenset({"/metrics"})
_MAX_TOKEN_CHARS: Final = 200
_HOW_TO_SEND: Final = "send it as `Authorization: Bearer KEY` or `x-api-key: KEY`"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: ``name`` tells callers apart (a key's id, or an address) and may be logged."""

    name: str
    key: ApiKey | None


class KeyRing:
    """The keys of a catalog, kept in memory and read anew every ``REFRESH_S``.

    Where the database cannot be read for a while, those known last go on being accepted, and ``degradations``
    tells it; before they were read once, nobody is let in. ``place`` is a path or a URL; a file that does not
    exist holds no keys.
    """

    def __init__(self, place: str | Path) -> None:
        self._place = place
        self._open: Keys | None = None
        self._keys: dict[str, ApiKey] = {}
        self._stale = False
        self._known = False
        self._stopping = asyncio.Event()

    @property
    def known(self) -> bool:
        """Whether they were read, once at least."""
        return self._known

    @property
    def empty(self) -> bool:
        """Whether there never was a key."""
        return not self._keys

    def any_usable(self) -> bool:
        """Whether a key would be accepted now."""
        return any(key.usable(time.time()) for key in self._keys.values())

    def read(self) -> None:
        """Reads the keys; raises StorageError."""
        self._keys = {key.id: key for key in within(ASIDE_S, self._all)}
        self._known = True

    def _all(self) -> Sequence[ApiKey]:
        if self._open is None:
            if isinstance(self._place, Path) and not self._place.exists():
                return ()
            self._open = Keys.open(self._place)
        return self._open.all()

    def read_if_reachable(self) -> None:
        """Reads the keys, or leaves that for later where a server holds them that is away.

        Raises StorageError for a file that cannot be read.
        """
        try:
            self.read()
        except StorageError as error:
            if isinstance(self._place, Path):
                raise
            self._stale = True
            _log.warning("keys_not_read", error=str(error))

    def close(self) -> None:
        """Closes the database."""
        if self._open is not None:
            self._open.close()

    @asynccontextmanager
    async def kept_fresh(self) -> AsyncIterator[None]:
        """Reads the keys now, as ``read_if_reachable``, and then again and again until the context ends."""
        # Never waits for the threads that compute: revocation must not queue behind searches.
        limiter = CapacityLimiter(1)
        self._stopping = asyncio.Event()  # of this event loop
        await to_thread.run_sync(self.read_if_reachable, limiter=limiter)
        task = asyncio.create_task(self._refresh(limiter))
        try:
            yield
        finally:
            self.stop()
            await asyncio.wait([task])
            self.close()

    def stop(self) -> None:
        """Begin nothing more; ``kept_fresh`` then ends soon."""
        self._stopping.set()

    async def _refresh(self, limiter: CapacityLimiter) -> None:
        while True:
            with anyio.move_on_after(REFRESH_S):
                await self._stopping.wait()
            if self._stopping.is_set():
                return
            was_stale = self._stale
            try:
                await to_thread.run_sync(self.read, limiter=limiter)
                self._stale = False
            except StorageError as error:
                self._stale = True
                if not was_stale:
                    _log.warning("keys_not_refreshed", error=str(error))
            if was_stale and not self._stale:
                _log.info("keys_refreshed_again")

    def degradations(self) -> Iterator[Degradation]:
        """That the keys are those of some time ago."""
        if not self._known:
            yield Degradation(
                "keys",
                "The database of keys could not be read yet: every request that may need one gets 503.",
                "Make the database reachable; its error is in the log under keys_not_read.",
            )
        elif self._stale:
            yield Degradation(
                "keys",
                "The database of keys cannot be read: keys made since are refused, revoked ones accepted.",
                "Make the database reachable again; its error is in the log under keys_not_refreshed.",
            )

    def admit(self, request: Request) -> Caller:
        """Who sends ``request``.

        Raises KeyRefusedError, ScopeMissingError, KeysUnknownError; while there are no keys, KeyRefusedError
        for whoever is not on this machine.
        """
        if not self._known:
            raise KeysUnknownError(
                "The database of the keys cannot be reached, so nobody is let in yet; try again later."
            )
        address = "" if request.client is None else request.client.host
        if self.empty:
            _expect_local(address, request.headers.get("host", ""))
            return Caller(_neighbourhood(address), None)
        token = _token(request)
        key = matching(token, self._keys)
        if key is None or not key.usable(time.time()):
            raise KeyRefusedError(
                f"{'An unknown, expired or revoked key' if token else 'No key'} was given, a valid one is "
                f"expected; {_HOW_TO_SEND}."
            )
        needed = scope_needed(request.method, request.scope["path"])
        if not key.scope.includes(needed):
            raise ScopeMissingError(
                f"The key has the scope {key.scope}, this needs {needed}; ask for a key with that scope."
            )
        return Caller(key.id, key)


def scope_needed(method: str, path: str) -> Scope:
    """What a key must be good for: reading, unless the request changes the collection.

    Batches are their callers' own: who may start one may end it.
    """
    if path.startswith("/v1/batches/"):
        return Scope.READ
    changes = method in {"PUT", "PATCH", "DELETE"} or (method == "POST" and path.rstrip("/") == "/v1/papers")
    return Scope.INGEST if changes else Scope.READ


def is_open(scope: ASGIScope) -> bool:
    """Whether a request is answered without a key, whatever it asks."""
    return scope["path"] in OPEN_PATHS or scope["path"].startswith(STATIC_PATH)


def asks_nothing(scope: ASGIScope) -> bool:
    """Whether a request is for a page before anything is asked on it; on that of batches its script asks."""
    return scope["path"] == "/batch" or (scope["path"] in PAGE_PATHS and not scope["query_string"])


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address to listen on."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _token(request: Request) -> str:
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    token = credentials if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
    return token.strip() if len(token) <= _MAX_TOKEN_CHARS else "too long"


def _expect_local(address: str, host: str) -> None:
    """Lets in who is on this machine, by whatever server the application runs.

    A client without an address talks over a Unix socket. A page of a web site could reach this machine
    through its reader's browser by a name that the site's owner points here: such names have dots.
    """
    try:
        local = ipaddress.ip_address(address).is_loopback
    except ValueError:
        local = True
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if not local or ("." in name and not is_loopback(name)):
        raise KeyRefusedError(
            "This service has no API keys yet and therefore answers its own machine alone; make one there: "
            "`akin keys create NAME --data DIR`."
        )


def _neighbourhood(address: str) -> str:
    """An address as rate limits count it: a client with IPv6 has a whole /64."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "local"
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address
