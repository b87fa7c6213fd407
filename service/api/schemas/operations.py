"""The shapes of health answers and of errors."""

from typing import Literal

from pydantic import BaseModel

from service.api.schemas.base import Out


class AliveOut(BaseModel):
    """The process is alive."""

    status: Literal["ok"] = "ok"


class DegradationOut(Out):
    """A part that does not work while the rest of the service does: the consequences and the remedy."""

    part: str
    detail: str
    remedy: str


class ReadyOut(BaseModel):
    """The service can answer: the collection that it answers from, and the parts that do not work."""

    status: Literal["ready"] = "ready"
    degraded: list[DegradationOut]
    generation: str
    papers: int
    vectors: int
    encoder: str


class ProblemOut(BaseModel):
    """An error (RFC 9457): ``type`` is stable, ``detail`` says what was given, expected and what to do."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[dict[str, str]] = []
