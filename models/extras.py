"""Optional parts of Akin: which extra to install if a package is missing.

This module needs no optional package, so any module can use it to report a missing one.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final, Literal

from models.errors import MissingPackageError

# The extras in pyproject.toml.
Extra = Literal[
    "cuvs",
    "evaluate",
    "gpu",
    "int8",
    "local",
    "mcp",
    "postgres",
    "ray",
    "redis",
    "serve",
    "telemetry",
    "train",
]
# Packages whose name on the registry differs from the one imported.
_DISTRIBUTIONS: Final = {
    "faiss": "faiss-cpu",
    "sklearn": "scikit-learn",
    "Stemmer": "PyStemmer",
}
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


@contextmanager
def needed(what: str, *, extra: Extra | None = None) -> Iterator[None]:
    """Raise MissingPackageError, with the command to install it, if the block imports a missing package.

    ``what`` names the part that needs the package, in words that begin a sentence. The command installs the
    ``extra`` of Akin, or else the extra that lists the package; if no extra lists it, the package itself.
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
    return f'pip install "akin[{named}]{_this_version()}"' if named else f"pip install {distribution}"


def _this_version() -> str:
    """Return ``==`` with the installed version, as "akin" is another project on PyPI; "" if not installed."""
    try:
        return f"=={version('akin')}"
    except PackageNotFoundError:
        return ""


def _extras() -> dict[str, str]:
    """Return the extra that lists each package, by the installed metadata; empty if Akin is not installed."""
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
        # The tools for developing Akin are no optional part of it.
        if name and conditional and extra != "dev":
            # The packages that all ways to search need come with "local", the one for CPUs.
            for_cpus = "local" if extra in {"cuvs", "engine", "gpu"} else extra
            named.setdefault(name[0].lower().replace("_", "-"), for_cpus)
    return named
