"""Notes that unfinished work leaves for the next run: JSON with a checksum of its own."""

import json
from pathlib import Path
from typing import Any, Final

from indexer.files.durable import replace_file
from models.checksums import digest_of

_CHECKSUM: Final = "sha256"


def write_note(path: Path, content: dict[str, Any], *, durable: bool = True) -> None:
    """Write a note in one step; one that is not durable may be lost by a crash of the machine."""
    note = json.dumps({**content, _CHECKSUM: digest_of(content)}).encode()
    replace_file(path, note, durable=durable)


def read_note(path: Path) -> dict[str, Any]:
    """What a note says; nothing where there is none, or a damaged one."""
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        stated = content.pop(_CHECKSUM)
    except (FileNotFoundError, ValueError, TypeError, AttributeError, KeyError):
        return {}
    return content if stated == digest_of(content) else {}
