"""What the explanation of a result adds up to."""

from collections.abc import Mapping
from typing import Any, Final

from service.api.schemas.search.search import WordsOut

NO_WORDS: Final = WordsOut(weight=0.0, distance=0.0, terms=())


def explained(result: Mapping[str, Any]) -> float:
    """Minus the sum of weight x distance over all that makes up the score of a result of ``/v1``."""
    parts = [*result["alignments"], *result["omitted"], result["words"]]
    return -sum(part["weight"] * part["distance"] for part in parts)
