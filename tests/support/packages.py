"""Distributions built from this tree, new environments to install them into, and notebooks run there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

from tests.support.builds import ROOT

UV = Path(sys.executable).with_name("uv")
PACKAGES = ("akin", "evaluation", "indexer", "models", "service")
# Execute a notebook in a kernel of the same environment.
EXECUTE = """
import sys

import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, kernel_name="python3", timeout=300).execute()
nbformat.write(notebook, sys.argv[1])
"""


def run(*command: object, status: int = 0, folder: Path | None = None) -> str:
    """Return the output of a command on both streams; its exit status must be ``status``.

    It starts in ``folder`` (default: the current one), and imports nothing of this tree unless it names it.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = list(map(str, command))
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert status == done.returncode, done.stderr
    return done.stdout + done.stderr


def checkout(folder: Path) -> Path:
    """Return a new folder with what the distributions are made of, as in a checkout."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


def build(scratch: Path) -> Path:
    """Build the source distribution, and the wheel from it; return the folder with both."""
    source, built = checkout(scratch / "source"), scratch / "built"
    given = ("--no-build-isolation", "--offline", "--quiet", "--python", sys.executable)
    run(UV, "build", *given, "--out-dir", built, source)
    return built


def wanted_of(built: Path, *extras: str, kind: str = "whl") -> str:
    """Return the requirement of a distribution of ``built`` with ``extras``."""
    (distribution,) = built.glob(f"*.{kind}")
    return f"akin[{','.join(extras)}] @ {distribution.as_uri()}"


def install(built: Path, folder: Path, *extras: str, beside: tuple[str, ...] = (), kind: str = "whl") -> Path:
    """Install a distribution of ``built`` with ``extras`` into a new environment; return its programs.

    The distribution is the wheel, or with ``kind`` ``tar.gz`` the source. Byte code is compiled, as by pip.
    Versions are those of the lock; ``beside`` are other packages to install.
    """
    run(UV, "venv", "--quiet", "--python", sys.executable, folder)
    python, wanted = folder / "bin" / "python", wanted_of(built, *extras, kind=kind)
    given = ("--quiet", "--compile-bytecode", "--python", python, "--constraints", ROOT / "requirements.lock")
    run(UV, "pip", "install", *given, wanted, *beside)
    return python.parent


def install_by_pip(built: Path, folder: Path, *extras: str, beside: tuple[str, ...] = ()) -> Path:
    """Do as :func:`install` by ``pip`` without a cache, as on a machine that never had these packages."""
    run(sys.executable, "-m", "venv", folder)
    versions = folder / "versions.txt"  # pip takes no hashes beside a wheel that has none
    locked = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    versions.write_text("\n".join(re.findall(r"^[\w.-]+==[^\s;\\]+", locked, re.MULTILINE)), encoding="utf-8")
    given = ("--quiet", "--no-cache-dir", "--constraint", versions)
    run(folder / "bin" / "pip", "install", *given, wanted_of(built, *extras), *beside)
    return folder / "bin"


def executed(programs: Path, notebook: nbformat.NotebookNode, folder: Path) -> str:
    """Return all outputs of a notebook executed by the Python of ``programs``."""
    file, script = folder / "notebook.ipynb", folder / "execute.py"
    nbformat.write(notebook, file)
    script.write_text(EXECUTE, encoding="utf-8")
    run(programs / "python", script, file, folder=folder)  # a kernel imports what lies beside it
    outputs = [each for cell in nbformat.read(file, as_version=4).cells for each in cell.get("outputs", ())]
    shown = [each.get("text", "") + "".join(each.get("data", {}).values()) for each in outputs]
    return "\n".join(shown)
