"""Akin as it is packed and installed: distributions of this tree, and environments that begin empty."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.builds import ROOT

UV = Path(sys.executable).with_name("uv")
PACKAGES = ("akin", "evaluation", "indexer", "models", "service")


def run(*command: object, status: int = 0) -> str:
    """What a command prints on both streams."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert status == done.returncode, done.stderr
    return done.stdout + done.stderr


def build(scratch: Path) -> Path:
    """A folder with the source distribution, and with the wheel that is built of it."""
    source, built = scratch / "source", scratch / "built"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    given = ("--no-build-isolation", "--offline", "--quiet", "--python", sys.executable)
    run(UV, "build", *given, "--out-dir", built, source)
    return built


def install(built: Path, folder: Path, *extras: str, beside: tuple[str, ...] = (), kind: str = "whl") -> Path:
    """The programs of a new environment in ``folder`` with a distribution of ``built`` and some extras.

    The distribution is the wheel, or of another ``kind``: ``tar.gz``. Byte code is made, as pip does.
    Versions are those of the lock; ``beside`` are other packages.
    """
    run(UV, "venv", "--quiet", "--python", sys.executable, folder)
    python, (distribution,) = folder / "bin" / "python", built.glob(f"*.{kind}")
    wanted = f"akin[{','.join(extras)}] @ {distribution.as_uri()}"
    given = ("--quiet", "--compile-bytecode", "--python", python, "--constraints", ROOT / "requirements.lock")
    run(UV, "pip", "install", *given, wanted, *beside)
    return python.parent
