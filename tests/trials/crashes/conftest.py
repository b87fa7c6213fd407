"""Trials that copy their own process, in which no other thread may run: `make test-forks` runs them."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all that is here."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("forks")
