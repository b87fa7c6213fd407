"""The access policy that each route declares."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from service.access.api_keys import Scope
from service.context import SEARCH_TIMEOUT_ADVICE

_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])
MAX_BODY_BYTES: Final = 2_000_000
MAX_BATCH_BYTES: Final = 32_000_000  # 10,000 pasted abstracts
_DECLARED: Final = "__akin_policy__"


class Queue(StrEnum):
    """The queue in which a request waits: for the processor, or for the database."""

    COMPUTING = "computing"
    STORING = "storing"


class Dialect(StrEnum):
    """How errors are written: as problems (RFC 9457), pages, or problems for Semantic Scholar's clients.

    ``EITHER`` is a page for a browser and a problem for all others.
    """

    PROBLEM = "problem"
    PAGE = "page"
    EITHER = "either"
    SCHOLAR = "scholar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a route requires of a request.

    ``scope`` is the scope that a key must have; ``None``: no key is needed. Without ``queue`` a request never
    waits and its body is not read. ``identifies`` finds the caller of a route that needs no key;
    ``by_address`` admits requests whose address ends in the token of a feed, which counts as one caller.
    ``quiet`` requests are logged at level debug unless they end in a 5xx status. ``remedy`` says what to
    request instead if a request takes too long. ``without_query`` replaces this policy if the address has no
    query.
    """

    scope: Scope | None
    queue: Queue | None
    max_body_bytes: int = MAX_BODY_BYTES
    rate_limited: bool = True
    dialect: Dialect = Dialect.PROBLEM
    identifies: bool = False
    by_address: bool = False
    quiet: bool = False
    remedy: str = SEARCH_TIMEOUT_ADVICE
    without_query: "Policy | None" = None


# Searches, and whatever else is computed from the collection.
READ: Final = Policy(scope=Scope.READ, queue=Queue.COMPUTING)
SCHOLAR: Final = replace(READ, dialect=Dialect.SCHOLAR)
# Batches and saved queries belong to their callers: a key that may search may make, read and delete its own.
OWN: Final = Policy(scope=Scope.READ, queue=Queue.STORING)
WRITE: Final = Policy(scope=Scope.INGEST, queue=Queue.STORING)
# For feed readers, which send no key: the address itself proves that they may read it.
FEED: Final = Policy(scope=None, queue=Queue.STORING, by_address=True)
# Health, documentation and the files of pages: of the collection only its size, encoder and generation.
PUBLIC: Final = Policy(scope=None, queue=None, rate_limited=False, quiet=True)
# The pages without a query; they show the collection only to a caller who may search it.
LANDING: Final = replace(PUBLIC, dialect=Dialect.PAGE, identifies=True)
PAGE: Final = replace(READ, dialect=Dialect.PAGE, without_query=LANDING)
# Read most when the service is busiest, so it neither waits nor counts against a rate.
METRICS: Final = Policy(scope=Scope.READ, queue=None, rate_limited=False, quiet=True)
# A path without a route: even to learn that, a key is needed.
UNKNOWN: Final = Policy(scope=Scope.READ, queue=None, dialect=Dialect.EITHER)


def requires(policy: Policy) -> Callable[[_Endpoint], _Endpoint]:
    """Declare the policy of the routes of an endpoint; a route whose endpoint declares none is denied."""

    def declare(endpoint: _Endpoint) -> _Endpoint:
        setattr(endpoint, _DECLARED, policy)
        return endpoint

    return declare


def declared(endpoint: object) -> Policy | None:
    """Return the policy that an endpoint declares, or ``None`` if it declares none."""
    policy = getattr(endpoint, _DECLARED, None)
    return policy if isinstance(policy, Policy) else None
