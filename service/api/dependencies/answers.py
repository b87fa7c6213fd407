"""The kept answers as a dependency of endpoints."""

from typing import Annotated

from fastapi import Depends, Request

from service.api.answers import Answers


def get_answers(request: Request) -> Answers:
    """The answers of the application."""
    answers: Answers = request.app.state.answers
    return answers


AnswersDep = Annotated[Answers, Depends(get_answers)]
