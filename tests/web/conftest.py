"""The browser, and a service for it over the demo corpus."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.servers.browser import SHARED, chromium, site, tab, visit, visit_at

__all__ = ["chromium", "site", "tab", "visit", "visit_at"]


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs the browser as ``system``, but for the samples that `make test` has of it."""
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("smoke"):
            item.add_marker("system")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Closes what tests here share behind the last of them."""
    yield
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        SHARED.close()
