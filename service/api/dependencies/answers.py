"""The cached answers, as a dependency of endpoints."""

from typing import Annotated

from fastapi import Depends, Request

from service.api.answers import Answers
from service.api.services import services_of


async def get_answers(request: Request) -> Answers:
    """Return the answers of the application."""
    return services_of(request.app).answers


AnswersDep = Annotated[Answers, Depends(get_answers)]
