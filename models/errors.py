"""Every error Akin raises on purpose.

    AkinError
    ├── InputError                  the input cannot be used
    │   ├── UnknownNameError        a name that is in no registry
    │   ├── CorpusError             a corpus file as a whole
    │   │   ├── CorpusFormatError   no reader recognises the file
    │   │   │   └── BrokenFileError
    │   │   └── BrokenRowError      one row of a corpus file
    │   ├── CollectionMissingError  a test collection that is not in the given folder
    │   ├── DeviceError             a device that is missing or cannot be used
    │   │   └── DeviceFullError     a device without enough memory for an index or a model
    │   ├── AnswerFormatError       an answer in a format that it is not available in
    │   ├── BatchNotFoundError      a batch that does not exist or belongs to another caller
    │   ├── BatchUnfinishedError    a result that only a finished batch has
    │   ├── IdempotencyError        an Idempotency-Key that was sent before with another request
    │   ├── SavedQueryNotFoundError a saved query that does not exist or belongs to another caller
    │   ├── SavedQueryConflictError a query whose name is taken, or one query too many
    │   ├── ProfileNotFoundError    a profile that does not exist or belongs to another caller
    │   └── QueryError              a search that cannot be carried out
    │       ├── PaperNotFoundError
    │       ├── SentenceSelectionError
    │       ├── MissingVectorsError
    │       └── CursorError         a cursor that does not belong to the search
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
    ├── RefusedError                a request that is refused or stopped, whatever its content
    │   ├── KeyRefusedError         no key, or one that is unknown, expired or revoked
    │   ├── KeysUnknownError        the keys could not be read yet
    │   ├── ScopeMissingError       a key without the required scope
    │   ├── RouteClosedError        a route that declares no access policy
    │   ├── BodyTooLargeError
    │   ├── RateLimitedError        too many requests by one client
    │   ├── OverloadedError         too many requests by all clients
    │   ├── ShardAwayError          machines that hold parts of a collection do not respond
    │   └── DeadlineError
    ├── ServiceError                an error response of a service, or none
    └── InternalError               a query of a batch that met an unexpected error

A message says what was given, what was expected and what to do.
"""

from typing import Any


class AkinError(Exception):
    """Base of every error Akin raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message and the attributes, whatever arguments the class takes."""
        return _unpickled, (type(self), self.args), self.__dict__


def _unpickled(kind: type[AkinError], message: tuple[Any, ...]) -> AkinError:
    """Return an error of a class without its ``__init__``; pickle then sets the attributes."""
    return kind.__new__(kind, *message)


class InputError(AkinError):
    """The input of the caller cannot be used."""


class UnknownNameError(InputError):
    """A name that is not in its registry; the message lists the known names."""


class CorpusError(InputError):
    """A corpus file that cannot be read as a whole."""


class CorpusFormatError(CorpusError):
    """A corpus file whose format no reader recognises."""


class BrokenFileError(CorpusFormatError):
    """A corpus file that cannot be read beyond ``line``: truncated, damaged or refused by the parser."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        super().__init__(f"{path}:{line}: {reason}. Fetch the file again or repair it.")
        self.path = path
        self.line = line
        self.reason = reason


class BrokenRowError(CorpusError):
    """One row of a corpus file without a usable paper."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        super().__init__(f"{path}:{line}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


class CollectionMissingError(InputError):
    """A test collection that is not in the given folder; the message says where to download it."""


class DeviceError(InputError):
    """A device that is missing or cannot be used; the message lists others or says what to choose."""


class DeviceFullError(DeviceError):
    """A device without enough memory for a model, for an index, or for a search in one."""


class AnswerFormatError(InputError):
    """An answer in a format that it is not available in; the message lists the available ones."""


class BatchNotFoundError(InputError):
    """A batch that does not exist or belongs to another caller."""


class BatchUnfinishedError(InputError):
    """A result that only a finished batch has."""


class IdempotencyError(InputError):
    """An ``Idempotency-Key`` that the caller sent before with another request."""


class SavedQueryNotFoundError(InputError):
    """A saved query, or its feed, that does not exist or belongs to another caller."""


class SavedQueryConflictError(InputError):
    """A query that cannot be saved (its name is taken, or the caller has too many), or have a feed."""


class ProfileNotFoundError(InputError):
    """A profile that does not exist or belongs to another caller."""


class QueryError(InputError):
    """A search request that is well-formed but cannot be carried out."""


class PaperNotFoundError(QueryError):
    """A paper id that is not in the collection."""


class SentenceSelectionError(QueryError):
    """Chosen sentences, or a facet, that the query paper does not have."""


class MissingVectorsError(QueryError):
    """A search over vectors that the collection was not indexed with."""


class CursorError(QueryError):
    """A cursor that this service did not make, or that belongs to another search."""


class CursorExpiredError(CursorError):
    """A cursor into a generation that is no longer served."""


class EncoderError(AkinError):
    """An encoder that cannot be loaded or run."""


class WeightsError(EncoderError):
    """Model weights that are absent, altered, or in a format that Akin does not load."""


class MissingPackageError(AkinError):
    """A package that the request needs is not installed; the message contains the install command."""


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
    """A request that is refused or stopped, whatever its content."""

    retry_after_s: int | None = None  # whole seconds after which a retry may succeed; None: it will not


class KeyRefusedError(RefusedError):
    """A request without a required key, or with a key that is unknown, expired or revoked."""


class KeysUnknownError(RefusedError):
    """A request that came before the keys could be read for the first time."""

    retry_after_s = 5


class ScopeMissingError(RefusedError):
    """A request whose key does not have the required scope."""


class RouteClosedError(RefusedError):
    """A request for a route without an access policy, or with another one than was applied."""


class BodyTooLargeError(RefusedError):
    """A request whose body is larger than the limit."""


class RateLimitedError(RefusedError):
    """A client sends requests faster than its limit."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class OverloadedError(RefusedError):
    """More requests wait than can be answered in time."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ShardAwayError(RefusedError):
    """Machines of a cluster do not respond, and a query cannot be answered without them."""

    retry_after_s = 5


class DeadlineError(RefusedError):
    """A request that exceeded the time limit, or whose client disconnected."""


class ServiceError(AkinError):
    """An error response of a service (a problem of RFC 9457), or no response.

    ``type`` is that of the problem, ``status`` the HTTP status (``None`` without a response), and
    ``request_id`` the id of the request in the log of the service.
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


class InternalError(AkinError):
    """A query of a batch that met an unexpected error; the log says where."""
