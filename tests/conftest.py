"""Collections the tests share: the demo corpus, indexed once with each encoder that needs no download."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from annotators import KeywordTagger

import akin
from indexer.build import BuildArguments, BuildReport, build
from indexer.snapshot import Snapshot, open_snapshot
from models.annotator import Annotator
from models.encoder import Encoder, load_encoder
from models.facets import FacetTagger
from models.functions import FunctionEncoder

pytest_plugins = ["postgres", "redis_server", "sentence_engines", "browser"]

DEMO_CORPUS = Path(akin.__file__).parent / "demo" / "papers.jsonl"
SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"

BuildFn = Callable[..., BuildReport]


def build_quietly(
    corpus: Path,
    data: Path,
    encoder: Encoder,
    *,
    tagger: FacetTagger | None = None,
    functions: FunctionEncoder | None = None,
    replace: bool = False,
    **arguments: object,
) -> BuildReport:
    """Index one corpus without showing progress; facets by keywords unless a tagger is given."""
    annotator = Annotator(encoder, tagger=tagger or KeywordTagger(), functions=functions)
    given = BuildArguments(**{"encoder": encoder.spec.name, "device": "cpu", **arguments})  # type: ignore[arg-type]  # keywords pass through
    return build(
        [corpus],
        data,
        annotator,
        arguments=given,
        on_progress=lambda stage, done, total: None,
        replace=replace,
    )


@pytest.fixture(scope="session")
def hashing() -> Encoder:
    """The encoder without weights."""
    return load_encoder("hashing")


@pytest.fixture(scope="session")
def minilm() -> Encoder:
    """The default encoder."""
    return load_encoder("minilm", device="cpu")


@pytest.fixture(scope="session")
def hashed_data(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """A data folder with the demo corpus under the hashing encoder; treat it as read-only."""
    data = tmp_path_factory.mktemp("hashed")
    build_quietly(DEMO_CORPUS, data, hashing)
    return data


@pytest.fixture(scope="session")
def demo_data(tmp_path_factory: pytest.TempPathFactory, minilm: Encoder) -> Path:
    """A data folder with the demo corpus under the default encoder; treat it as read-only."""
    data = tmp_path_factory.mktemp("demo")
    build_quietly(DEMO_CORPUS, data, minilm)
    return data


@pytest.fixture
def hashed_snapshot(hashed_data: Path) -> Snapshot:
    """The demo corpus under the hashing encoder, opened anew."""
    return open_snapshot(hashed_data)


@pytest.fixture
def log_left_alone() -> Iterator[None]:
    """Takes back what a test configures of logging."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
