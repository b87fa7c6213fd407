"""What commands are tried on: a collection of their own, and a service over it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.app import create_app
from service.settings import Settings
from tests.support.servers.loopback import served


@pytest.fixture
def data(hashed_data: Path, tmp_path: Path) -> Path:
    """The demo corpus, a copy."""
    return Path(shutil.copytree(hashed_data, tmp_path / "data"))


@pytest.fixture
def address(data: Path) -> Iterator[str]:
    """A service over it."""
    with served(create_app(Settings(data=data, device="cpu"))) as address:
        yield address
