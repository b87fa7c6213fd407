"""Validation of the page's queries with the models of ``/v1``, with the page's names of fields in errors."""

from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from models.errors import QueryError
from service.validation import Fault, faults_of, sentence, where

_Model = TypeVar("_Model", bound=BaseModel)
# The page's names for fields of requests.
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


def validated(model: type[_Model], given: dict[str, Any]) -> _Model:
    """Validate ``given`` as a ``model``; raises QueryError."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise QueryError(_refusal(faults_of(error.errors(include_url=False))[0])) from error


def _refusal(first: Fault) -> str:
    """Return the message for the first fault that a model of ``/v1`` finds, with the page's field name."""
    named = [_PARTS[part] for part in first.loc if part in _PARTS]
    if named:
        return f"{sentence(named[-1], first.said)}."
    return f"This search cannot be run: {sentence(where(first.loc), first.said)}."
