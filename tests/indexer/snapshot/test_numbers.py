"""Numbered generations and segments: longer names keep the order of their numbers."""

from pathlib import Path

import pytest

from indexer.catalog.catalog import Catalog
from indexer.collection.changes import publish_pending
from indexer.collection.delete import delete_papers
from indexer.collection.maintenance.backup import back_up
from indexer.collection.merging import compact
from indexer.collection.rollback import rollback
from indexer.files.data_folder import CATALOG_FILE, KEEP, DataFolder, next_name, numbered
from indexer.snapshot.folder import current_generation, read_manifest, verify
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.removal import remove_old_generations
from models.encoder import Encoder
from models.types import Paper, Sentence
from service.cache.digests import generation_digest
from service.cache.store import open_cache
from service.collection.generations import Engines, open_warm_engine
from service.settings import Settings
from tests.support.annotators import annotated
from tests.support.builds import build_quietly, many_papers, quiet, renumbered, write_corpus


@pytest.fixture
def data(tmp_path: Path, hashing: Encoder) -> Path:
    """Return a collection of 20 papers with one generation and one segment, both numbered 999,998."""
    build_quietly(write_corpus(tmp_path / "c.jsonl", many_papers(20)), tmp_path / "data", hashing)
    renumbered(tmp_path / "data", "999998")
    return tmp_path / "data"


def add(data: Path, hashing: Encoder, number: int, *, keep: int = 10) -> Manifest:
    """Add one paper through the catalog, publish it, and return the manifest."""
    text = f"Whale {number} sings."
    annotator = annotated(hashing)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([Paper(f"whale{number}", "Whales", text, (Sentence(text, 0, len(text)),))])
        return publish_pending(data, annotator, catalog, on_progress=quiet, keep=keep).manifest


def test_names_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Names of seven digits come after those of six, and other names in the folder are ignored."""
    for name in ("1000000", "999999", "000002", "1000001", "0000003", "12", "\u0661" * 6, "000001.discarded"):
        (tmp_path / "snapshots" / name).mkdir(parents=True)
    assert ["000002", "999999", "1000000", "1000001"] == numbered(tmp_path / "snapshots")
    assert "1000002" == next_name(tmp_path / "snapshots")
    assert ["000002", "999999"] == DataFolder(tmp_path).generations_before("1000000")
    assert [] == DataFolder(tmp_path).generations_before("whatever CURRENT names")


def test_a_collection_lives_on_past_a_million_publications(data: Path, hashing: Encoder) -> None:
    """Additions, a deletion and a compaction past 1,000,000 leave every generation whole."""
    names = [add(data, hashing, number).generation for number in range(4)]
    assert ["999999", "1000000", "1000001", "1000002"] == names
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert "1000003" == delete_papers(data, ["p0"], catalog, keep=10).manifest.generation
    manifest = compact(data, open_snapshot(data), device="cpu", keep=10)
    assert "1000004" == manifest.generation == current_generation(data)
    assert ["999998", *names, "1000003", "1000004"] == DataFolder(data).generations()
    assert int(manifest.segments[0].name) > 1_000_000
    papers = [len(open_snapshot(data, name)) for name in DataFolder(data).generations()]
    assert [20, 21, 22, 23, 24, 23, 23] == papers
    assert papers == [verify(data, name).n_papers for name in DataFolder(data).generations()]


def test_rolling_back_crosses_the_border_one_by_one(data: Path, hashing: Encoder) -> None:
    """Each rollback goes to the generation before, also from seven digits to six."""
    for number in range(3):
        add(data, hashing, number)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        went_to = [rollback(data, catalog=catalog).manifest.generation for _ in range(3)]
        assert ["1000000", "999999", "999998"] == went_to
        assert "1000001" == rollback(data, "1000001", catalog=catalog).manifest.generation
    assert 23 == len(open_snapshot(data))
    assert "1000002" == add(data, hashing, 3).generation


def test_the_newest_remain_across_the_border(data: Path, hashing: Encoder) -> None:
    """Removal keeps the newest generations by number, with all segments that they name."""
    for number in range(3):
        add(data, hashing, number, keep=KEEP)
    assert ["999999", "1000000", "1000001"] == DataFolder(data).generations()
    with Catalog.open(data / CATALOG_FILE) as catalog:
        rollback(data, "1000000", catalog=catalog)
    add(data, hashing, 9, keep=3)
    assert ["999999", "1000000", "1000002"] == DataFolder(data).generations()
    assert ["999999", "1000000"] == remove_old_generations(data, keep=1)
    named = {
        entry.name for name in DataFolder(data).generations() for entry in read_manifest(data, name).segments
    }
    assert named == set(numbered(data / "segments"))


def test_a_backup_and_a_cursor_find_generations_past_the_border(
    data: Path, hashing: Encoder, tmp_path: Path
) -> None:
    """A backup serves a generation of seven digits, and a cursor finds one with six."""
    add(data, hashing, 0)
    settings = Settings(data=data, encoder="hashing")
    cache = open_cache(settings)
    engines = Engines.of(settings, open_warm_engine(settings, cache), cache)
    add(data, hashing, 1)
    assert engines.follow()
    assert "1000000" == engines.current.snapshot.generation
    for name in DataFolder(data).generations():
        digest = generation_digest(read_manifest(data, name))
        assert name == engines.at(digest).snapshot.generation
    manifest = back_up(data, tmp_path / "copy", catalog=data / CATALOG_FILE)
    assert "1000000" == manifest.generation == open_snapshot(tmp_path / "copy").generation
    assert "1000001" == add(tmp_path / "copy", hashing, 2).generation
