"""The addresses of the pages' style sheets and scripts, with one version for all files together."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("static")


@cache
def version() -> str:
    """Return a hash of all files, 12 hexadecimal digits.

    It is a folder in their addresses, so that a script imports other scripts of the same version.
    """
    digest = hashlib.sha256()
    for file in sorted(FOLDER.iterdir()):
        content = file.read_bytes()
        digest.update(f"{file.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


@cache
def address(name: str) -> str:
    """Return the address of the file called ``name``; raises KeyError if there is none."""
    if not (FOLDER / name).is_file():
        raise KeyError(name)
    return f"/static/{version()}/{name}"
