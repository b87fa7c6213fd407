"""The parts of one running service, which routes and middleware work with."""

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
    """What there is while the service runs.

    ``degradations`` are asked at each look at /readyz and /metrics, and answer from memory. ``draining`` is
    set once the process is asked to end.
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
        """What does not work at the moment."""
        return [each for source in self.degradations for each in source()]


def services_of(app: FastAPI) -> Services:
    """The services of an application that has started."""
    services: Services = app.state.services
    return services


def public_address(request: Request) -> str:
    """Where others reach the service, without a slash at its end, for links that are read elsewhere.

    Where no setting says it, it is as the request asked: its host, and its scheme, or that which a proxy on
    this machine names.
    """
    address = services_of(request.app).settings.public_url or str(request.base_url)
    return address.rstrip("/")
