"""The parts of answers that tests compare: the sum that explains a score, and the warnings."""

from collections.abc import Mapping
from typing import Any, Final

from service.api.schemas.search.results import WordsOut

NO_WORDS: Final = WordsOut(weight=0.0, distance=0.0, terms=())


def explained(result: Mapping[str, Any]) -> float:
    """Return the score of a ``/v1`` result from its parts: minus the sum of weight x distance."""
    parts = [*result["alignments"], *result["omitted"], result["words"]]
    return -sum(part["weight"] * part["distance"] for part in parts)


def warned(answer: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Return code and subjects of each warning; its message must be a sentence without placeholders."""
    for each in answer["warnings"]:
        message = each["message"]
        assert {"code", "message", "about"} == set(each)
        assert message[0].isupper(), message
        assert message.endswith("."), message
        assert not set("{}:_") & set(message), message
    return [(each["code"], each["about"]) for each in answer["warnings"]]
