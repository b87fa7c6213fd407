"""Schemathesis on the OpenAPI document: requests generated from it, and checks of the answers.

Separate from the test, so that schemathesis and its many imports are only loaded when the test runs.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import schemathesis

# Imported here, because otherwise it is imported during the run, while hypothesis changes the recursion
# limit; CPython 3.11 then sometimes fails to compile it.
import schemathesis.engine.run.stateful._executor
from fastapi import FastAPI
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import Failure
from schemathesis.core.transport import Response
from schemathesis.engine import events, from_schema

WHOLE = 4  # the first boundary values of an endpoint, all of which the sample sends
MADE = 40  # the most boundary values generated for the sample
# A request can fit the schema and still be refused, for a sentence number that is too high, a cursor of
# another search or 501 papers in two lists. No schema can express this. The check that good requests are
# accepted only sees statuses, so it permits every 422 (400 for Semantic Scholar's clients); the stricter
# check below permits only these problems.
NOT_OF_SHAPE = {"input", "query", "sentence-selection", "missing-vectors", "cursor"}
CONFIG: dict[str, Any] = {
    "seed": 1,
    "workers": 1,
    "continue-on-failure": True,
    "warnings": False,
    "checks": {
        # A body that is too large is refused before its content is checked.
        "negative_data_rejection": {
            "expected-statuses": ["400", "401", "404", "405", "406", "410", "413", "415", "422"]
        },
        # Batches are started faster than they finish, and a caller may only have a few at once.
        "positive_data_acceptance": {
            "expected-statuses": ["2xx", "400", "401", "403", "404", "409", "410", "413", "422", "429"]
        },
    },
}


@schemathesis.check
def good_shapes_are_accepted(ctx: Any, response: Response, case: schemathesis.Case) -> None:
    """Fail if a request that fits the document is refused for its shape."""
    if not case.meta.generation.mode.is_positive or response.status_code not in {400, 422}:
        return
    slug = json.loads(response.content)["type"].removeprefix("urn:akin:problem:")
    if slug not in NOT_OF_SHAPE:
        raise Failure(operation=case.operation.label, title="Good shape refused", message=slug)


@dataclass
class Seen:
    """The number of requests by endpoint and by status, and the findings of the checks."""

    requests: Counter[str] = field(default_factory=Counter)
    answered: Counter[int] = field(default_factory=Counter)
    wrong: dict[str, str] = field(default_factory=dict)
    took: str = ""

    def __str__(self) -> str:
        return (
            f"{self.requests.total():,} requests in {self.took}: {len(self.wrong)} findings; "
            f"{dict(self.answered)}; {dict(self.requests)}"
        )


def run(app: FastAPI, *, n_examples: int, whole: bool) -> Seen:
    """Send requests to every endpoint; ``whole`` adds chains of requests and all boundary values."""
    generation = {"max-examples": n_examples, "deterministic": True, "database": "none"}
    chains = {"stateful": {"enabled": whole}}
    config = SchemathesisConfig.from_dict({**CONFIG, "generation": generation, "phases": chains})
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=config)
    seen = Seen()
    if not whole:
        # Not with a hook, which would see a request only after much more work than generating it.
        schema.iter_coverage_cases = sampled(schema.iter_coverage_cases)

    @schema.hook
    def after_call(context: Any, case: schemathesis.Case, response: Response) -> None:
        seen.requests[case.operation.label] += 1
        seen.answered[response.status_code] += 1

    started, cpu = time.perf_counter(), time.process_time()
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError):
            seen.wrong[event.label] = event.info.format()
        elif isinstance(event, events.ScenarioFinished):
            seen.wrong |= {found.splitlines()[0] + (event.label or ""): found for found in findings(event)}
    seen.took = f"{time.perf_counter() - started:.0f} s, {time.process_time() - cpu:.0f} s of CPU"
    return seen


def sampled(boundaries: Callable[..., Iterator[schemathesis.Case]]) -> Callable[..., Any]:
    """Return an iterator of the first four boundary values of an endpoint, and two of the next 36.

    Three endpoints have thousands of them, because they take lists of what other endpoints take once.
    """

    def some(*given: Any, **named: Any) -> Iterator[schemathesis.Case]:
        for number, case in enumerate(islice(boundaries(*given, **named), MADE), start=1):
            if number <= WHOLE or number % 20 == 0:
                yield case

    return some


def findings(event: events.ScenarioFinished) -> Iterator[str]:
    """Yield the failures of the checks in a scenario, with code to reproduce them."""
    for checks in event.recorder.checks.values():
        for check in checks:
            if found := check.failure_info:
                yield f"{check.name}: {found.failure}\n{found.code_sample[:500]}"
