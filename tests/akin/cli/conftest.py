"""Fixtures of the command tests: a collection for each test, and a service over it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.app import create_app
from service.settings import Settings
from tests.support.servers.loopback import served


@pytest.fixture
def data(hashed_data: Path, tmp_path: Path) -> Path:
    """A copy of the demo corpus."""
    return Path(shutil.copytree(hashed_data, tmp_path / "data"))


@pytest.fixture
def address(data: Path) -> Iterator[str]:
    """The address of a service over ``data``."""
    with served(create_app(Settings(data=data, device="cpu"))) as address:
        yield address
