"""The OpenAPI document."""

from collections import ChainMap
from typing import Any, Final

import orjson
from fastapi import FastAPI

from service.access.policy import Policy
from service.api.examples import EXAMPLES
from service.api.middleware.routing import RouteTable
from service.api.schemas.operations import ProblemOut


def _header(description: str, *, kind: str = "string", always: bool = False) -> dict[str, Any]:
    return {"description": description, "required": always, "schema": {"type": kind}}


_OF_ALL: Final = {
    "X-Request-ID": _header("The id of the request in the log of the service", always=True),
    "X-Akin-Generation": _header("The generation of the collection that was searched", always=True),
    "RateLimit-Limit": _header("Requests a minute", kind="integer"),
    "RateLimit-Remaining": _header("Requests left in this minute", kind="integer"),
    "RateLimit-Reset": _header("Seconds until the limit is reset", kind="integer"),
}
_RETRY: Final = {"Retry-After": _header("Seconds to wait before the next try", kind="integer", always=True)}
_OF_STATUS: Final = {
    "401": {"WWW-Authenticate": _header("How to send a key", always=True)},
    "403": {"WWW-Authenticate": _header("The scope that is missing")},
    "405": {"Allow": _header("The methods that the path accepts", always=True)},
    "429": _RETRY,
    "503": _RETRY,
}
_SCHEMES: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key of `akin keys create`."},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key."},
}


class DocumentedAPI(FastAPI):
    """An application that adds keys and headers, which no endpoint declares, to its OpenAPI document."""

    _written: tuple[str, bytes] | None = None  # the root path, and the document for it

    def written(self, root_path: str) -> bytes:
        """Return the document as JSON for a service at ``root_path``; cached, as anyone may request it."""
        if self._written is None or self._written[0] != root_path:
            document = self.openapi()
            served = document | {"servers": [{"url": root_path}]} if root_path else document
            self._written = root_path, orjson.dumps(served)
        return self._written[1]

    def openapi(self) -> dict[str, Any]:
        """Return the document, built once."""
        if self.openapi_schema is None:
            document = super().openapi()
            components = document.setdefault("components", {})
            components["securitySchemes"] = _SCHEMES
            components["schemas"]["ProblemOut"] = ProblemOut.model_json_schema()
            components["headers"] = dict(ChainMap(_OF_ALL, *_OF_STATUS.values()))
            errors: dict[str, Any] = {}
            components["responses"] = errors
            policies = {
                (route.path, method.lower()): route.policy
                for route in RouteTable(self).routes
                for method in route.methods
            }
            for path, operations in document["paths"].items():
                for method, operation in operations.items():
                    operation["security"] = _security(policies[path, method])
                    if path in EXAMPLES and "requestBody" in operation:
                        operation["requestBody"]["content"]["application/json"]["examples"] = EXAMPLES[path]
                    responses = operation["responses"]
                    for status, response in responses.items():
                        common = [*_OF_ALL, *_OF_STATUS.get(status, {})]
                        refs = {name: {"$ref": f"#/components/headers/{name}"} for name in common}
                        response["headers"] = {**refs, **response.get("headers", {})}
                        if status >= "400":
                            responses[status] = _shared(errors, status, response)
            return document
        return self.openapi_schema


def _shared(errors: dict[str, Any], status: str, response: dict[str, Any]) -> dict[str, str]:
    """Return a reference to ``response``, which is described once for all operations that may send it."""
    name = next((name for name, each in errors.items() if each == response), None)
    if name is None:
        n_before = sum(each.startswith(f"Problem{status}") for each in errors)
        name = f"Problem{status}-{n_before}" if n_before else f"Problem{status}"
        errors[name] = response
    return {"$ref": f"#/components/responses/{name}"}


def _security(policy: Policy | None) -> list[dict[str, list[str]]]:
    """Return the keys that an operation accepts, with their scope; also no key, for while none exists."""
    if policy is None or policy.scope is None:
        return []
    return [{}, *({scheme: [policy.scope.value]} for scheme in _SCHEMES)]
