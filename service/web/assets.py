"""Style sheets and scripts of the pages, under one address for each version of them all together."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as a browser gets it."""

    content: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class Assets:
    """All files by name; ``version`` changes whenever one of them does.

    It is a folder of their addresses, so that a script which imports another gets the one of its version.
    """

    by_name: dict[str, Asset]
    version: str

    def address(self, name: str) -> str:
        """Where a page finds the file called ``name``; raises KeyError where there is none."""
        if name not in self.by_name:
            raise KeyError(name)
        return f"/static/{self.version}/{name}"


@cache
def load_assets() -> Assets:
    """The files that came with this version of Akin, read once."""
    found: dict[str, Asset] = {}
    digest = hashlib.sha256()
    for file in sorted((files("service.web") / "static").iterdir(), key=lambda file: file.name):
        suffix = file.name[file.name.rfind(".") :]
        if suffix in _TYPES:
            found[file.name] = Asset(file.read_bytes(), _TYPES[suffix])
            digest.update(f"{file.name}\0{len(found[file.name].content)}\0".encode())
            digest.update(found[file.name].content)
    return Assets(found, digest.hexdigest()[:12])
