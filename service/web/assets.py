"""Style sheets and scripts of the pages, under one address for each version of them all together."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("static")


@cache
def version() -> str:
    """Changes whenever one of the files does.

    It is a folder of their addresses, so that a script which imports another gets the one of its version.
    """
    digest = hashlib.sha256()
    for file in sorted(FOLDER.iterdir()):
        content = file.read_bytes()
        digest.update(f"{file.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


@cache
@cache
def address(name: str) -> str:
    """Where a page finds the file called ``name``; raises KeyError where there is none."""
    if not (FOLDER / name).is_file():
        raise KeyError(name)
    return f"/static/{version()}/{name}"
