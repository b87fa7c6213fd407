"""Reading and validation of JSON bodies; large ones in a thread, outside the event loop."""

import json
from collections.abc import Callable, Coroutine
from email.message import Message
from functools import partial
from typing import Any, Final

from anyio import to_thread
from fastapi import Request, Response
from fastapi._compat import ModelField
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from service.api.bounded_json import parsed

_WHERE = ("body",)
# Validating so many bytes takes less than handing them to a thread and waiting for it.
_SMALL_BYTES: Final = 2048


class JSONBodyRoute(APIRoute):
    """A route that validates a large body in a thread; FastAPI would do it on the event loop."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handle, field = super().get_route_handler(), self.body_field
        if field is None:
            return handle

        async def handle_read(request: Request) -> Response:
            content = await request.body()
            if not content or not _is_json(request.headers.get("content-type", "")):
                return await handle(request)  # FastAPI refuses it without parsing the body
            read = partial(_model, content, field)
            body = read() if len(content) <= _SMALL_BYTES else await to_thread.run_sync(read)
            return await handle(_ReadRequest(request, body))

        return handle_read


class _ReadRequest(Request):
    """A request with a validated body, which FastAPI uses unchanged."""

    def __init__(self, request: Request, body: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._read = body

    async def body(self) -> bytes:
        return b"{}"

    async def json(self) -> Any:
        return self._read


def _model(content: bytes, field: ModelField) -> Any:
    """Return the model of a body.

    Raises RequestValidationError, InputError, BodyTooLargeError, HTTPException 400.
    """
    try:
        given = parsed(content)
    except json.JSONDecodeError as error:
        raise RequestValidationError([_no_json(error)]) from error
    except UnicodeError as error:
        raise HTTPException(400, "The body is not encoded in UTF-8; send it in UTF-8.") from error
    except RecursionError as error:
        raise HTTPException(400, "The body is nested too deeply; send it flatter.") from error
    model, errors = field.validate(given, {}, loc=_WHERE)
    if errors:
        raise RequestValidationError(errors)
    return model


def _is_json(content_type: str) -> bool:
    message = Message()
    message["content-type"] = content_type
    subtype = message.get_content_subtype()
    return message.get_content_maintype() == "application" and (
        subtype == "json" or subtype.endswith("+json")
    )


def _no_json(error: json.JSONDecodeError) -> dict[str, Any]:
    said = f"is not valid JSON from character {error.pos} on"
    return {"type": "not_json", "loc": _WHERE, "msg": said, "input": {}}
