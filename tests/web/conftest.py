"""Fixtures of the browser, and of a service over the demo corpus for it."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.servers.browser import SHARED, chromium, site, tab, visit, visit_at

__all__ = ["chromium", "site", "tab", "visit", "visit_at"]


@pytest.hookimpl(tryfirst=True)  # before `-m` selects tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need the browser as ``system``, except the ``smoke`` samples that `make test` runs."""
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("smoke"):
            item.add_marker("system")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Close the shared browser and service after the last test of this folder."""
    yield
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        SHARED.close()
