"""The warnings of an answer as tests compare them."""

from typing import Any


def warned(answer: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Of each warning its code and what it is about; its message must be a sentence without gaps."""
    for each in answer["warnings"]:
        message = each["message"]
        assert {"code", "message", "about"} == set(each)
        assert message[0].isupper(), message
        assert message.endswith("."), message
        assert not set("{}:_") & set(message), message
    return [(each["code"], each["about"]) for each in answer["warnings"]]
