"""The program ``akin``, also as ``python -m akin``."""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command line; from here on SIGTERM ends it, also as process 1 of a container.

    The kernel ends any other process, but leaves process 1 alone where it has no handler for a signal.
    """
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, _end)
    from models.errors import MissingPackageError  # noqa: PLC0415 - only now: the signal may come meanwhile
    from models.extras import needed  # noqa: PLC0415

    try:
        with needed("The command line", extra="local"):
            from akin.cli.app import app  # noqa: PLC0415
    except MissingPackageError as error:
        sys.exit(f"error: {error}")
    app()


def _end(number: int, _frame: FrameType | None) -> None:
    """Ends at once, with the status that a shell gives whoever a signal ended."""
    os._exit(128 + number)


if __name__ == "__main__":
    main()
