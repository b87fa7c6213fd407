"""Every error Akin raises on purpose.

    AkinError
    ├── InputError                  what was given cannot be used
    │   ├── UnknownNameError        a name that no registry holds
    │   ├── CorpusError             a corpus file as a whole
    │   │   ├── CorpusFormatError   no reader recognises the file
    │   │   │   └── BrokenFileError
    │   │   └── BrokenRowError      one row of a corpus file
    │   ├── CollectionMissingError  a test collection that is not where it was said to be
    │   └── QueryError              a search that cannot be carried out
    │       ├── PaperNotFoundError
    │       ├── SentenceSelectionError
    │       └── MissingVectorsError
    ├── EncoderError                an encoder that cannot be loaded or run
    │   └── WeightsError            weights absent, altered or in a refused format
    ├── MissingPackageError         an optional package is not installed
    ├── StorageError                a file or folder that cannot be read or written
    │   └── BuildLockedError        another process is writing to the same data folder
    └── SnapshotError               a snapshot that cannot be served
        ├── SnapshotMissingError
        ├── SnapshotCorruptError
        └── EncoderMismatchError

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


class QueryError(InputError):
    """A search request that is well-formed but cannot be carried out."""


class PaperNotFoundError(QueryError):
    """A paper id that the collection does not hold."""


class SentenceSelectionError(QueryError):
    """Chosen sentences that the query paper does not have, or a facet none of its sentences has."""


class MissingVectorsError(QueryError):
    """A search over vectors that the collection was not indexed with."""


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
