"""The shapes of health answers and of errors."""

from pydantic import BaseModel


class HealthOut(BaseModel):
    """Whether the service can answer, and from what."""

    status: str
    generation: str | None = None
    papers: int | None = None
    vectors: int | None = None
    encoder: str | None = None


class ProblemOut(BaseModel):
    """An error (RFC 9457): ``type`` is stable, ``detail`` says what was given, expected and what to do."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[dict[str, str]] = []
