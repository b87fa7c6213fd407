"""The documents of the repository that people read."""

from pathlib import Path
from typing import Final

import akin

ROOT: Final = Path(akin.__file__).parents[1]
DOCUMENTS: Final = (
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
