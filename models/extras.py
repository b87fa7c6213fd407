"""Optional parts of Akin: which extra to install if a package is missing.

Nothing here needs anything itself, so that whatever lacks a package can say so.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires
from typing import Final, Literal

from models.errors import MissingPackageError

# As pyproject.toml has them.
Extra = Literal["evaluate", "gpu", "local", "mcp", "postgres", "ray", "redis", "serve", "telemetry", "train"]
# Packages whose name on the registry differs from the one imported.
_DISTRIBUTIONS: Final = {
    "faiss": "faiss-cpu",
    "sklearn": "scikit-learn",
    "Stemmer": "PyStemmer",
}
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


@contextmanager
def needed(what: str, *, extra: Extra | None = None) -> Iterator[None]:
    """Says what to install where a package that the block imports is not there.

    ``what`` is what needs it, in words that begin a sentence. It comes with an extra of Akin: with ``extra``,
    or else the one that names it; a package that none names is installed by itself. Raises
    MissingPackageError.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise MissingPackageError(
            f"{what} needs the package {package!r}, which is not installed: {_install_line(package, extra)}"
        ) from error


def _install_line(package: str, extra: str | None) -> str:
    distribution = _DISTRIBUTIONS.get(package, package).replace("_", "-")
    named = extra or _extras().get(distribution.lower())
    return f'pip install "akin[{named}]"' if named else f"pip install {distribution}"


def _extras() -> dict[str, str]:
    """The extra that each package comes with, by what was installed; nothing where Akin was not."""
    try:
        stated = requires("akin") or []
    except PackageNotFoundError:
        return {}
    named: dict[str, str] = {}
    for requirement in stated:
        wanted, _, condition = requirement.partition(";")
        name = _NAME.match(wanted)
        _, conditional, extra = condition.rpartition("extra ==")
        extra = extra.strip(" \"')")
        # The tools of those who develop Akin are no part of it.
        if name and conditional and extra != "dev":
            # What every way to search needs comes with the one for processors.
            named.setdefault(name[0].lower().replace("_", "-"), "local" if extra == "engine" else extra)
    return named
