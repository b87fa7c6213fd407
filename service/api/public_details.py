"""Public messages of internal failures; they name no file, server or driver."""

from typing import Final

from models.errors import AkinError, BuildLockedError, EncoderError, SnapshotError, StorageError

_SEE_LOG: Final = "The reason is in the log of the service, under the id of this request or batch."
_DETAILS: Final[dict[type[AkinError], str]] = {
    BuildLockedError: f"Another process writes to the collection; try again later. {_SEE_LOG}",
    StorageError: "The catalog or the data folder cannot be read or written, its disk is full, or it belongs "
    "to another collection; try again later, or check the disk, AKIN_DATA and AKIN_CATALOG_URL. "
    f"{_SEE_LOG}",
    SnapshotError: f"The collection cannot be served in its current state. {_SEE_LOG}",
    EncoderError: f"The encoder cannot be loaded or run. {_SEE_LOG}",
}


def public_detail(error: AkinError) -> str:
    """Return the message of ``error`` for clients: its text, unless that may name internals."""
    return next((_DETAILS[cls] for cls in type(error).__mro__ if cls in _DETAILS), str(error))
