"""The OpenAPI document is true: thousands of requests made from it, good and bad, are answered as it says.

Schemathesis makes them: boundary values, random ones, and chains of requests that use what others answered.
The sample has no chains, and sends every twentieth of the boundary values of an endpoint that has hundreds.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis

# Otherwise loaded in the middle of the run, while hypothesis changes the recursion limit: CPython 3.11 then
# fails to compile it now and then.
import schemathesis.engine.run.stateful._executor
from fastapi import FastAPI
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import Failure
from schemathesis.core.transport import Response
from schemathesis.engine import events, from_schema
from schemathesis.generation.meta import TestPhase
from schemathesis.python.asgi import shutdown_lifespans

from service.app import create_app
from service.settings import Settings
from tests.support.builds import collection
from tests.support.servers.asgi import endpoints

SAMPLE = 2  # random requests for each endpoint
TRIAL = 1_000
FEWEST = {SAMPLE: 400, TRIAL: 10_000}
WHOLE = 12  # boundary values of one endpoint that the sample sends all of
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


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    """The service over papers of the demo corpus under the hashing encoder, which it publishes changes of."""
    data = collection(tmp_path)
    yield create_app(Settings(data=data, keyless="write", device="cpu", rate=0))
    shutdown_lifespans()


def findings(event: events.ScenarioFinished) -> Iterator[str]:
    """What the checks found in one scenario, with how to see it again."""
    for checks in event.recorder.checks.values():
        for check in checks:
            if found := check.failure_info:
                yield f"{check.name}: {found.failure}\n{found.code_sample[:500]}"


# Hypothesis says the one of large examples, to whom prints them; the other when threads of the service draw
# random numbers while it makes an example.
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@pytest.mark.parametrize("n_examples", [SAMPLE, pytest.param(TRIAL, marks=pytest.mark.trial)])
def test_the_openapi_document_is_true(app: FastAPI, n_examples: int) -> None:
    """Every endpoint answers as its document says, whatever is made from it: all checks find nothing."""
    generation = {"max-examples": n_examples, "deterministic": True, "database": "none"}
    chains = {"stateful": {"enabled": n_examples == TRIAL}}
    config = SchemathesisConfig.from_dict({**CONFIG, "generation": generation, "phases": chains})
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=config)
    asked, answered, made = Counter[str](), Counter[int](), Counter[str]()

    @schema.hook
    def filter_case(context: Any, case: schemathesis.Case) -> bool:
        # Random requests all pass: for each that does not, hypothesis would make others in vain.
        if n_examples == TRIAL or case.meta.phase.name is not TestPhase.COVERAGE:
            return True
        made[case.operation.label] += 1
        number = made[case.operation.label]
        return number <= WHOLE or number % 20 == 0

    @schema.hook
    def after_call(context: Any, case: schemathesis.Case, response: Response) -> None:
        asked[case.operation.label] += 1
        answered[response.status_code] += 1

    wrong: dict[str, str] = {}
    started, cpu = time.perf_counter(), time.process_time()
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError):
            wrong[event.label] = event.info.format()
        elif isinstance(event, events.ScenarioFinished):
            wrong |= {found.splitlines()[0] + (event.label or ""): found for found in findings(event)}
    took = f"{time.perf_counter() - started:.0f} s, {time.process_time() - cpu:.0f} s of CPU"
    summary = f"{asked.total():,} requests in {took}: {len(wrong)} findings; {dict(answered)}; {dict(asked)}"
    print(summary)  # noqa: T201 - what `make trials` is run for
    assert not wrong, "\n\n".join([summary, *wrong.values()])
    assert asked.total() >= FEWEST[n_examples]
    assert {f"{method} {path}" for method, path in endpoints(app)} == set(asked)
