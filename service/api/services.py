"""The parts of a running service that routes and middleware use."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fastapi import FastAPI, Request

from service.access.feeds import FeedTokens
from service.access.keys import KeyRing
from service.access.queue import Queues
from service.api.answers import Answers
from service.batches.scheduler import Batches
from service.cache.store import Cache
from service.collection.cursors import Cursors
from service.collection.served import ServedCollection
from service.degradation import Degradation
from service.observability.metrics import Metrics
from service.saved.profiles import Profiles
from service.saved.saved_queries import SavedQueries
from service.settings import Settings
from service.store import LazyStore


@dataclass(slots=True)
class Services:
    """The parts of the service while it runs.

    ``degradations`` are called for each request of /readyz and /metrics, and answer from memory. ``draining``
    is set when the process begins to shut down.
    """

    settings: Settings
    collection: ServedCollection
    cache: Cache
    answers: Answers
    cursors: Cursors
    batches: Batches
    saved: LazyStore[SavedQueries]
    profiles: LazyStore[Profiles]
    feeds: FeedTokens
    keys: KeyRing
    queues: Queues
    metrics: Metrics
    degradations: list[Callable[[], Iterable[Degradation]]]
    draining: bool = False

    def degraded(self) -> list[Degradation]:
        """Return the parts that do not work at the moment."""
        return [each for source in self.degradations for each in source()]


def services_of(app: FastAPI) -> Services:
    """Return the services of an application that has started."""
    services: Services = app.state.services
    return services


def public_address(request: Request) -> str:
    """Return the address of the service for links that are read elsewhere, without a trailing slash.

    If the settings do not give it, it is that of the request: its host, and its scheme or the one that a
    proxy on this machine names.
    """
    address = services_of(request.app).settings.public_url or str(request.base_url)
    return address.rstrip("/")
