"""Notes of unfinished work for the next run: JSON that includes its checksum."""

import json
from pathlib import Path
from typing import Any, Final

from indexer.files.durable import replace_file
from models.checksums import digest_of

_CHECKSUM: Final = "sha256"


def write_note(path: Path, content: dict[str, Any], *, durable: bool = True) -> None:
    """Write a note in one step; unless it is ``durable``, a crash of the machine may lose it."""
    note = json.dumps({**content, _CHECKSUM: digest_of(content)}).encode()
    replace_file(path, note, durable=durable)


def read_note(path: Path) -> dict[str, Any]:
    """Return the content of a note; empty if there is none, or it is damaged."""
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        stated = content.pop(_CHECKSUM)
    except (FileNotFoundError, ValueError, TypeError, AttributeError, KeyError):
        return {}
    return content if stated == digest_of(content) else {}
