"""The program ``akin``, also as ``python -m akin``."""

import io
import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command line, and exit at SIGTERM, also as process 1 of a container.

    The kernel ends other processes at a signal, but not process 1 if it has no handler for the signal.
    """
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, _end)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # in an encoding without some characters, print "?" for them
    from models.errors import MissingPackageError  # noqa: PLC0415 - only now: the signal may come meanwhile
    from models.extras import needed  # noqa: PLC0415

    try:
        with needed("The command line", extra="local"):
            from akin.cli.app import app  # noqa: PLC0415
    except MissingPackageError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)
    app()


def _end(number: int, _frame: FrameType | None) -> None:
    """Exit at once, with the status that a shell reports for a process ended by this signal."""
    os._exit(128 + number)


if __name__ == "__main__":
    main()
