"""Tests that the service answers thousands of requests made from its OpenAPI document as the document says.

Schemathesis makes them: boundary values, random ones, and chains of requests that use others' answers. The
sample has no chains, and six boundary values per endpoint.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from service.app import create_app
from service.settings import Settings
from tests.support.builds import collection
from tests.support.servers.asgi import endpoints
from tests.support.trials.settings import print_figure

SAMPLE = 1  # random request per endpoint
TRIAL = 1_000
MIN_REQUESTS = {SAMPLE: 200, TRIAL: 10_000}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    """Yield the service over papers of the demo corpus, with the hashing encoder and published changes."""
    data = collection(tmp_path)
    yield create_app(Settings(data=data, keyless="write", device="cpu", rate=0))
    from schemathesis.python.asgi import shutdown_lifespans  # noqa: PLC0415 - the same

    shutdown_lifespans()


# Hypothesis warns of large examples whenever one is printed, and of random numbers that threads of the
# service draw while it makes an example.
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@pytest.mark.parametrize("n_examples", [SAMPLE, pytest.param(TRIAL, marks=pytest.mark.trial)])
def test_the_openapi_document_is_true(app: FastAPI, n_examples: int) -> None:
    """Every endpoint answers the generated requests as its document says."""
    from tests.support.trials import schema  # noqa: PLC0415 - see there

    seen = schema.run(app, n_examples=n_examples, whole=n_examples == TRIAL)
    print_figure(seen)
    assert not seen.wrong, "\n\n".join([str(seen), *seen.wrong.values()])
    assert seen.requests.total() >= MIN_REQUESTS[n_examples]
    assert {f"{method} {path}" for method, path in endpoints(app)} == set(seen.requests)
