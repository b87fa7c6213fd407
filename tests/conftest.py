"""Hooks and shared fixtures of the tests: encoders, and the demo corpus indexed once for all tests."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.shapes import Calls, check_shapes

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from indexer.snapshot.snapshot import Snapshot
    from models.annotator import Annotator
    from models.encoder import Encoder
    from service.search.engine import SearchEngine

ROOT = Path(__file__).parents[1]
WITH_SHAPES = frozenset(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in ("models", "indexer", "service", "evaluation")
    for path in (ROOT / package).rglob("*.py")
    if "from jaxtyping import" in path.read_text(encoding="utf-8")
)
check_shapes(WITH_SHAPES)
# Fixtures import what they need when used, so that a test of one module loads neither torch nor the service.
pytest.register_assert_rewrite("tests.support")
pytest_plugins = [
    "tests.support.servers.postgres",
    "tests.support.servers.ray",
    "tests.support.servers.redis",
]

# Folders with the slowest files, run first so that no worker is left with one of them at the end.
_FIRST = ("trials", "web", "akin", "service")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the folders with the slowest files first, unless the order is random."""
    if config.pluginmanager.has_plugin("randomly"):
        return

    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(ROOT / "tests").parts[0]
        return _FIRST.index(folder) if folder in _FIRST else len(_FIRST)

    items.sort(key=place)


def pytest_runtest_setup() -> None:
    """Check shapes from the first calls again, and reset the logging that a command may have configured."""
    Calls.forget()
    if structlog := sys.modules.get("structlog"):
        structlog.reset_defaults()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collection, and freeze the objects loaded by then.

    Garbage collection took a quarter of the time of test collection, and later went through all the loaded
    objects each time. It then runs far less often than by default, because it took a tenth of the test time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 100)
        gc.enable()


def pytest_xdist_auto_num_workers() -> int:
    """Return the cores available plus one, at most 8: many tests wait for servers and processes."""
    return min(len(os.sched_getaffinity(0)) + 1, 8)


@pytest.fixture(scope="session")
def hashing() -> Encoder:
    """The encoder without weights."""
    from models.encoder import load_encoder

    return load_encoder("hashing")


@pytest.fixture(scope="session")
def minilm() -> Encoder:
    """The default encoder."""
    from models.encoder import load_encoder

    return load_encoder("minilm", device="cpu")


@pytest.fixture(scope="session")
def hashed_data(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """A data folder with the demo corpus under the hashing encoder; treat it as read-only."""
    from tests.support.builds import DEMO_CORPUS, build_quietly

    data = tmp_path_factory.mktemp("hashed")
    build_quietly(DEMO_CORPUS, data, hashing)
    return data


@pytest.fixture
def hashed_snapshot(hashed_data: Path) -> Snapshot:
    """The demo corpus under the hashing encoder, opened again for each test."""
    from indexer.snapshot.opening import open_snapshot

    return open_snapshot(hashed_data)


@pytest.fixture(scope="session")
def sentence_annotator(hashing: Encoder) -> Annotator:
    """The hashing encoder with layers, facets by keywords and a stand-in for the function encoder."""
    from tests.support.sentence_engines import layered_annotator

    return layered_annotator(hashing)


@pytest.fixture(scope="session")
def sentence_engine(tmp_path_factory: pytest.TempPathFactory, sentence_annotator: Annotator) -> SearchEngine:
    """The demo corpus, with the facets it came with, and with function vectors."""
    from tests.support.sentence_engines import demo_engine

    return demo_engine(tmp_path_factory.mktemp("functions"), sentence_annotator)


@pytest.fixture(scope="session")
def plain_engine(hashed_data: Path, hashing: Encoder) -> SearchEngine:
    """The demo corpus without function vectors."""
    from tests.support.annotators import annotated
    from tests.support.sentence_engines import opened

    return opened(hashed_data, annotated(hashing))


@pytest.fixture(scope="session")
def sentence_client(sentence_engine: SearchEngine) -> Iterator[TestClient]:
    """A client of the service over the demo corpus with function vectors."""
    from fastapi.testclient import TestClient

    from service.app import create_app
    from service.settings import Settings

    with TestClient(create_app(Settings(), sentence_engine), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def log_left_alone() -> Iterator[None]:
    """Restore the logging configuration after the test."""
    import structlog

    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
