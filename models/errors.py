"""Every error Akin raises on purpose.

    AkinError
    ├── InputError                  what was given cannot be used
    │   ├── UnknownNameError        a name that no registry holds
    │   ├── CorpusError             a corpus file as a whole
    │   │   ├── CorpusFormatError   no reader recognises the file
    │   │   │   └── BrokenFileError
    │   │   └── BrokenRowError      one row of a corpus file
    │   ├── CollectionMissingError  a test collection that is not where it was said to be
    │   ├── DeviceFullError         an index that its device has no room for
    │   ├── AnswerFormatError       an answer asked for in a format there is none in
    │   ├── BatchNotFoundError      a batch that is not there, or not the caller's
    │   ├── BatchUnfinishedError    something of a batch that only a finished one has
    │   ├── IdempotencyError        an Idempotency-Key that was sent with something else before
    │   ├── SavedQueryNotFoundError a saved query that is not there, or not the caller's
    │   ├── SavedQueryConflictError a query that cannot be saved beside those there are
    │   ├── ProfileNotFoundError    a profile that is not there, or not the caller's
    │   └── QueryError              a search that cannot be carried out
    │       ├── PaperNotFoundError
    │       ├── SentenceSelectionError
    │       ├── MissingVectorsError
    │       └── CursorError         a cursor that does not go with the search
    │           └── CursorExpiredError
    ├── EncoderError                an encoder that cannot be loaded or run
    │   └── WeightsError            weights absent, altered or in a refused format
    ├── MissingPackageError         an optional package is not installed
    ├── StorageError                a file or folder that cannot be read or written
    │   └── BuildLockedError        another process is writing to the same data folder
    ├── SnapshotError               a snapshot that cannot be served
    │   ├── SnapshotMissingError
    │   ├── SnapshotCorruptError
    │   └── EncoderMismatchError
    ├── RefusedError                a request that is turned away, or given up, whatever it asks for
    │   ├── KeyRefusedError         no key, or one that is unknown, expired or revoked
    │   ├── KeysUnknownError        nobody can be let in before the keys are read
    │   ├── ScopeMissingError       a key that may not do this
    │   ├── RouteClosedError        a route that declares no access policy
    │   ├── BodyTooLargeError
    │   ├── RateLimitedError        too many requests by one client
    │   ├── OverloadedError         too many requests by all of them
    │   ├── ShardAwayError          machines of a cluster that hold parts of a collection do not answer
    │   └── DeadlineError
    └── ServiceError                what a client got of a service instead of an answer

A message says what was given, what was expected and what to do.
"""


class AkinError(Exception):
    """Base of every error Akin raises on purpose."""


class InputError(AkinError):
    """What the caller gave cannot be used as it is."""


class UnknownNameError(InputError):
    """A name that its registry does not hold; the message lists the names it does hold."""


class CorpusError(InputError):
    """A corpus file that cannot be read as a whole."""


class CorpusFormatError(CorpusError):
    """A corpus file whose format no reader recognises."""


class BrokenFileError(CorpusFormatError):
    """A corpus file that cannot be read on from ``line``: cut short, damaged or refused by the parser."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        super().__init__(f"{path}:{line}: {reason}. Fetch the file again or repair it.")
        self.path = path
        self.line = line
        self.reason = reason


class BrokenRowError(CorpusError):
    """One row of a corpus file that does not hold a usable paper."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        super().__init__(f"{path}:{line}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


class CollectionMissingError(InputError):
    """A test collection that is not where it was said to be; the message tells where to get it."""


class DeviceFullError(InputError):
    """A device whose memory does not suffice for an index, or for a search in one."""


class AnswerFormatError(InputError):
    """An answer asked for in a format there is none in; the message lists those there are."""


class BatchNotFoundError(InputError):
    """A batch that is not there, or that another caller started."""


class BatchUnfinishedError(InputError):
    """Something of a batch that only a finished one has."""


class IdempotencyError(InputError):
    """An ``Idempotency-Key`` that the caller sent with another request before."""


class SavedQueryNotFoundError(InputError):
    """A saved query, or a feed of one, that is not there, or that another caller saved."""


class SavedQueryConflictError(InputError):
    """A query that cannot be saved beside those there are: its name is taken, or they are too many."""


class ProfileNotFoundError(InputError):
    """A profile that is not there, or that another caller keeps."""


class QueryError(InputError):
    """A search request that is well-formed but cannot be carried out."""


class PaperNotFoundError(QueryError):
    """A paper id that the collection does not hold."""


class SentenceSelectionError(QueryError):
    """Chosen sentences that the query paper does not have, or a facet none of its sentences has."""


class MissingVectorsError(QueryError):
    """A search over vectors that the collection was not indexed with."""


class CursorError(QueryError):
    """A cursor that this service did not make, or that belongs to another search."""


class CursorExpiredError(CursorError):
    """A cursor into a generation that is no longer served."""


class EncoderError(AkinError):
    """An encoder that cannot be loaded or run."""


class WeightsError(EncoderError):
    """Model weights that are absent, altered, or in a format that is never loaded."""


class MissingPackageError(AkinError):
    """A package that the request needs is not installed; the message carries the install line."""


class StorageError(AkinError):
    """A file or folder that cannot be read or written."""


class BuildLockedError(StorageError):
    """Another process is writing to the same data folder."""


class SnapshotError(AkinError):
    """A snapshot that cannot be served."""


class SnapshotMissingError(SnapshotError):
    """A data folder without a published snapshot."""


class SnapshotCorruptError(SnapshotError):
    """A snapshot whose files differ from its manifest."""


class EncoderMismatchError(SnapshotError):
    """A snapshot built with another encoder than the one loaded."""


class RefusedError(AkinError):
    """A request that is turned away, or given up, whatever it asks for."""

    retry_after_s: int | None = None  # whole seconds after which trying again may help; None: it will not


class KeyRefusedError(RefusedError):
    """A request without a key where one is needed, or with one that is unknown, expired or revoked."""


class KeysUnknownError(RefusedError):
    """A request that came before the keys could be read for the first time."""

    retry_after_s = 5


class ScopeMissingError(RefusedError):
    """A request whose key is good, but not for this."""


class RouteClosedError(RefusedError):
    """A request for a route that declares no access policy, or another one than was applied."""


class BodyTooLargeError(RefusedError):
    """A request whose body is larger than the service reads."""


class RateLimitedError(RefusedError):
    """One client's requests come faster than its share."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class OverloadedError(RefusedError):
    """More requests wait than can be answered in time."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ShardAwayError(RefusedError):
    """Machines of a cluster that do not answer, without which a query cannot be answered."""

    retry_after_s = 5


class DeadlineError(RefusedError):
    """A request that took longer than the service works on one, or whose client has gone."""


class ServiceError(AkinError):
    """What a client got of a service instead of an answer: a problem (RFC 9457), or nothing.

    ``type`` is that of the problem, ``status`` the HTTP status, ``None`` where nothing was answered;
    ``request_id`` finds the request in the service's log.
    """

    def __init__(
        self,
        detail: str,
        *,
        type: str,  # noqa: A002 - the problem's own name for it
        status: int | None,
        request_id: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.type = type
        self.status = status
        self.request_id = request_id
        self.retry_after_s = retry_after_s
