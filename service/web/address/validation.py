"""Requests of the page as the models of ``/v1`` take them; what these find wrong, in the page's own words."""

from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from models.errors import QueryError

_Model = TypeVar("_Model", bound=BaseModel)
# Parts of requests for people, and what is wrong with them, by pydantic's names of it.
_PARTS: Final[dict[int | str, str]] = {
    "paper_id": "The id of a paper",
    "text": "The text",
    "title": "The title",
    "abstract": "The abstract",
    "year_from": "The first year",
    "year_to": "The last year",
    "venues": "The name of a venue",
    "fields": "The name of a field",
    "authors": "The name of an author",
    "words": "The weight of shared words",
    "limit": "The number of results per page",
    "cursor": "The link to this page of results",
    "sentences": "The list of sentences",
    "seeds": "The list of papers to be similar to",
    "negatives": "The list of papers to avoid",
}
_REFUSED: Final = {
    "string_too_long": "may have {max_length:,} characters",
    "greater_than_equal": "is {ge} at least",
    "less_than_equal": "is {le} at most",
    "too_long": "may have {max_length} entries",
}


def validated(model: type[_Model], given: dict[str, Any]) -> _Model:
    """``given`` as a request; raises QueryError."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise QueryError(_refusal(error.errors(include_url=False)[0])) from error


def _refusal(first: ErrorDetails) -> str:
    """What the models of ``/v1`` find wrong first, in the words of the page."""
    limits = first.get("ctx", {})
    named = [_PARTS[part] for part in first["loc"] if part in _PARTS]
    said = _REFUSED.get(first["type"])
    if not named or said is None:
        return f"This search cannot be run: {str(first['msg']).removeprefix('Value error, ')}."
    return f"{named[-1]} {said.format(**limits)}."
