"""Reading of a batch's results as they arrive, which resumes after a broken connection."""

import json
from typing import Any

import httpx
from pydantic import TypeAdapter

from akin.client.requests import batch_path
from akin.client.responses.batches import BatchResult, Problem
from akin.client.responses.matches import MatchedSubmission
from akin.client.responses.papers import AnswerWarning
from akin.client.responses.ranked import RecommendationsAnswer, SearchAnswer
from models.counts import counted
from models.errors import ServiceError

_MAX_DIGITS = 18
_SEARCH_ANSWER = TypeAdapter(SearchAnswer)
_RECOMMENDATIONS = TypeAdapter(RecommendationsAnswer)
_MATCHED = TypeAdapter(MatchedSubmission)
_WARNINGS = TypeAdapter(tuple[AnswerWarning, ...])


class ResultsReader:
    """A client's position in the results of a batch: ``start`` is the number of the next result."""

    def __init__(self, batch_id: str, start: int) -> None:
        self._path = f"{batch_path(batch_id)}/results"
        self.start = start
        self.attempt = 0
        self.finished = False
        self._rest = b""

    def request(self) -> dict[str, Any]:
        """Return the next request, as keywords of httpx."""
        self.attempt += 1
        self._rest = b""
        return {
            "method": "GET",
            "url": self._path,
            "params": {"start": self.start},
            "headers": {"Accept": "application/x-ndjson"},
        }

    def answers(self, content: bytes) -> list[BatchResult]:
        """Return the results completed by ``content``; raises ServiceError if one is not valid."""
        *lines, self._rest = (self._rest + content).split(b"\n")
        answers = [_batch_result(line) for line in lines]  # before start moves, as it may raise
        self.start += len(answers)
        self.attempt = 0 if answers else self.attempt
        return answers

    def end(self, response: httpx.Response) -> None:
        """Record whether the response had all results; if not, the batch is still queued or running.

        Raises ServiceError if the batch failed, or if the response is not one of a service, and
        httpx.RemoteProtocolError if it ended before the results that it announced.
        """
        stop = response.headers.get("x-akin-next-start", "")
        if self._rest or (stop.isascii() and stop.isdigit() and self.start < int(stop[:_MAX_DIGITS])):
            raise httpx.RemoteProtocolError("The response ended early.")
        self.attempt = 0
        state = response.headers.get("x-akin-batch-state")
        if state is None:
            raise _error(
                "The response is not one of an Akin service; check the address.", response.status_code
            )
        if state == "failed":
            message = f"The batch failed after {counted(self.start, 'result')}; get_batch says why, in error."
            raise _error(message, response.status_code)
        self.finished = state not in {"queued", "running"}


def _batch_result(line: bytes) -> BatchResult:
    try:
        answer = json.loads(line)
        seed, paper_id = answer.pop("seed"), answer.pop("paper_id")
        name = answer.pop("name", None)
        if "problem" in answer:
            return BatchResult(seed, paper_id, None, Problem(**answer["problem"]), name)
        if "match" in answer:
            matched = _MATCHED.validate_python(answer["match"])
            warnings = _WARNINGS.validate_python(answer.get("warnings", ()))
            return BatchResult(seed, paper_id, matched, None, warnings=warnings)
        shape: TypeAdapter[Any] = _SEARCH_ANSWER if name is None else _RECOMMENDATIONS
        return BatchResult(seed, paper_id, shape.validate_python(answer), None, name)
    except (ValueError, KeyError, TypeError) as error:
        message = "The result is not one of an Akin service; check the versions of client and service."
        raise _error(message, None) from error


def _error(message: str, status: int | None) -> ServiceError:
    return ServiceError(message, type="about:blank", status=status)
