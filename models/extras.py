"""Parts of Akin that need more than the client does: what to install where one of them is not there.

Nothing here needs anything, so that what lacks a package can say so.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from models.errors import MissingPackageError

# As pyproject.toml has them.
Extra = Literal["evaluate", "gpu", "local", "mcp", "postgres", "redis", "serve", "telemetry", "train"]


@contextmanager
def needed(what: str, *, extra: Extra | None = None, package: str = "") -> Iterator[None]:
    """Says what to install where a package that the block imports is not there.

    ``what`` is what needs it, in words that begin a sentence. It comes with ``extra`` of Akin or, where none
    has it, as ``package``. Raises MissingPackageError.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        raise MissingPackageError(
            f"{what} needs the package {missing!r}, which is not installed: {install_line(extra, package)}"
        ) from error


def install_line(extra: Extra | None = None, package: str = "") -> str:
    """What to type to install an extra of Akin, or a package."""
    return f'pip install "akin[{extra}]"' if extra else f"pip install {package}"
