"""Tests that the service stops working on heavy requests when clients disconnect."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from service.api.middleware.access_log import CLIENT_GONE
from tests.support.trials.disconnects import HEAVY, Service
from tests.support.trials.settings import print_figure


@pytest.fixture(scope="module")
def service(hashed_data: Path) -> Iterator[Service]:
    """Yield a service over the demo corpus in a separate process."""
    started = Service(hashed_data)
    yield started
    started.end()


@pytest.mark.parametrize(
    ("name", "n_times"),
    [
        ("ot, limit 100", 3),
        *(pytest.param(name, 40, marks=pytest.mark.trial) for name in HEAVY),
    ],
)
def test_work_stops_when_its_client_goes(service: Service, name: str, n_times: int) -> None:
    """A request whose client disconnects at any moment ends, and the service answers the next one."""
    path, body = HEAVY[name]
    whole_s = max(service.ask(path, body, hang_up_after_s=None)[0] for _ in range(2))
    moments = np.linspace(0.0, 0.95, n_times)
    ended = [service.ask(path, body, hang_up_after_s=float(moment) * whole_s) for moment in moments]
    took_ms = [seconds * 1000 for seconds, status in ended if status == CLIENT_GONE]
    assert {CLIENT_GONE} <= {status for _, status in ended} <= {200, CLIENT_GONE}
    p50, most = np.percentile(took_ms, [50, 100])
    print_figure(
        f"{name}: whole {whole_s * 1000:.0f} ms; of {n_times} hung up on, {len(took_ms)} stopped after "
        f"p50 {p50:.0f}, at most {most:.0f} ms"
    )
    assert 200 == service.ask(path, body, hang_up_after_s=None)[1]
