"""Schemathesis over the OpenAPI document: requests made from it, and what its checks find in the answers.

Apart from the test, so that what schemathesis loads, and that is much, is loaded where the test runs.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import schemathesis

# Otherwise loaded in the middle of the run, while hypothesis changes the recursion limit: CPython 3.11 then
# fails to compile it now and then.
import schemathesis.engine.run.stateful._executor
from fastapi import FastAPI
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import Failure
from schemathesis.core.transport import Response
from schemathesis.engine import events, from_schema

WHOLE = 4  # boundary values of one endpoint that the sample sends all of
MADE = 40  # those that are made for it, at most
# A request can have the shape it should have and yet ask for what there is none of: a sentence past the
# last, a cursor of another search, 501 papers in two lists. No schema can say so. The check that good ones
# are accepted knows statuses alone, so it lets all 422 pass (400 for Semantic Scholar's clients); the one
# below, stricter, takes these alone and no other.
NOT_OF_SHAPE = {"input", "query", "sentence-selection", "missing-vectors", "cursor"}
CONFIG: dict[str, Any] = {
    "seed": 1,
    "workers": 1,
    "continue-on-failure": True,
    "warnings": False,
    "checks": {
        # Too large a body is refused before anyone looks at what is in it.
        "negative_data_rejection": {
            "expected-statuses": ["400", "401", "404", "405", "406", "410", "413", "415", "422"]
        },
        # Batches are started faster than they are done, and a caller may have some at once only.
        "positive_data_acceptance": {
            "expected-statuses": ["2xx", "400", "401", "403", "404", "409", "410", "413", "422", "429"]
        },
    },
}


@schemathesis.check
def good_shapes_are_accepted(ctx: Any, response: Response, case: schemathesis.Case) -> None:
    """A request as the document would have it is not refused for its shape."""
    if not case.meta.generation.mode.is_positive or response.status_code not in {400, 422}:
        return
    slug = json.loads(response.content)["type"].removeprefix("urn:akin:problem:")
    if slug not in NOT_OF_SHAPE:
        raise Failure(operation=case.operation.label, title="Good shape refused", message=slug)


@dataclass
class Seen:
    """What was asked, what was answered, and what the checks found wrong."""

    asked: Counter[str] = field(default_factory=Counter)
    answered: Counter[int] = field(default_factory=Counter)
    wrong: dict[str, str] = field(default_factory=dict)
    took: str = ""

    def __str__(self) -> str:
        return (
            f"{self.asked.total():,} requests in {self.took}: {len(self.wrong)} findings; "
            f"{dict(self.answered)}; {dict(self.asked)}"
        )


def run(app: FastAPI, *, n_examples: int, whole: bool) -> Seen:
    """Ask every endpoint; ``whole`` adds chains of requests and all boundary values."""
    generation = {"max-examples": n_examples, "deterministic": True, "database": "none"}
    chains = {"stateful": {"enabled": whole}}
    config = SchemathesisConfig.from_dict({**CONFIG, "generation": generation, "phases": chains})
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=config)
    seen = Seen()
    if not whole:
        # Here, and not by a hook, which sees a request once much more was done for it than to make it.
        schema.iter_coverage_cases = sampled(schema.iter_coverage_cases)

    @schema.hook
    def after_call(context: Any, case: schemathesis.Case, response: Response) -> None:
        seen.asked[case.operation.label] += 1
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
    """The first four of the boundary values of an endpoint, and two of the next 36.

    Three endpoints have thousands: lists of what other endpoints take one of.
    """

    def some(*given: Any, **named: Any) -> Iterator[schemathesis.Case]:
        for number, case in enumerate(islice(boundaries(*given, **named), MADE), start=1):
            if number <= WHOLE or number % 20 == 0:
                yield case

    return some


def findings(event: events.ScenarioFinished) -> Iterator[str]:
    """What the checks found in one scenario, with how to see it again."""
    for checks in event.recorder.checks.values():
        for check in checks:
            if found := check.failure_info:
                yield f"{check.name}: {found.failure}\n{found.code_sample[:500]}"
