"""The browser, and a service for it over the demo corpus."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.servers.browser import SHARED, chromium, site, tab, visit, visit_at

__all__ = ["chromium", "site", "tab", "visit", "visit_at"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Closes what tests here share behind the last of them."""
    yield
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        SHARED.close()
