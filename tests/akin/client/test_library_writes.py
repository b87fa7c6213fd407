"""Tests of additions and deletions by several threads of a program, and of what they leave in the folder."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import akin
from akin.local.collection import Collection
from indexer.catalog.catalog import Catalog
from indexer.files.data_folder import DataFolder, Work
from models.errors import InputError, StorageError
from service.collection import ingest
from tests.support.builds import many_papers
from tests.support.servers.patience import soon

PAPERS: Any = many_papers(12)


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    """Return the folder of a collection of one paper."""
    akin.index(PAPERS[:1], tmp_path / "data", encoder="hashing", device="cpu").close()
    return DataFolder(tmp_path / "data")


def test_a_change_is_published_although_another_thread_was_publishing(folder: DataFolder) -> None:
    """Additions and deletions that find the lock taken publish as soon as it is free."""
    with akin.open(folder.root) as collection, Catalog.open_existing(folder.catalog) as catalog:
        for change, shown in (
            (lambda: collection.add(PAPERS[1]), 2),
            (lambda: collection.delete(PAPERS[1]["id"]), 1),
        ):
            before = catalog.last_change()
            with ThreadPoolExecutor(1) as threads:
                with folder.working(Work.CHANGES):
                    changing = threads.submit(change)
                    soon(lambda: catalog.last_change() > before)  # noqa: B023
                changing.result()
            assert shown == len(collection)


def test_what_others_store_meanwhile_is_published_too(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that is stored while another is published, by a call that does not wait, is published next."""
    publish, later = ingest.publish_pending, [PAPERS[2], PAPERS[3]]

    def publish_and_store(*given: Any, **keywords: Any) -> Any:
        done = publish(*given, **keywords)
        if later:
            with Catalog.open_existing(folder.catalog) as catalog, akin.open(folder.root) as other:
                before = catalog.last_change()
                with folder.working(Work.CHANGES):
                    other.add(later.pop(), wait=False)
                assert before + 1 == catalog.last_change()
        return done

    monkeypatch.setattr(ingest, "publish_pending", publish_and_store)
    with akin.open(folder.root) as collection:
        collection.add(PAPERS[1])
        assert {paper["id"] for paper in PAPERS[:4]} == {paper.id for paper in collection.list_papers()}


def test_segments_are_merged_when_due(folder: DataFolder) -> None:
    """Papers added one by one do not each remain a segment that every search reads."""
    with akin.open(folder.root) as collection:
        for paper in PAPERS[1:]:
            collection.add(paper)
        assert (12, True) == (len(collection), len(segments(collection)) < 8)


def test_a_merge_that_fails_does_not_fail_the_addition(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If segments cannot be merged, the paper is added and searchable, and a warning says why."""

    def no_room(*_: Any, **__: Any) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(ingest, "merge", no_room)
    with akin.open(folder.root) as collection, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for paper in PAPERS[1:]:
            collection.add(paper)
        assert 12 == len(collection)
    assert {(__file__, "Segments were not merged: the disk is full")} == {
        (each.filename, str(each.message)) for each in warned
    }


def segments(collection: Collection) -> Any:
    """Return the segments of the generation that a collection serves."""
    return collection._engine.snapshot.segments


def test_a_folder_must_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a path, ``akin.index`` writes nowhere, not to the folder of the environment either."""
    monkeypatch.setenv("AKIN_DATA", str(tmp_path / "data"))
    with pytest.raises(InputError, match="takes the path of a data folder, not NoneType"):
        akin.index(PAPERS[:1], None, encoder="hashing")  # type: ignore[arg-type]
    assert not (tmp_path / "data").exists()


def test_indexing_uses_the_settings_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``akin.index`` uses the catalog, the number of older generations and the device of the environment."""
    place, data = tmp_path / "elsewhere.sqlite3", tmp_path / "data"
    monkeypatch.setenv("AKIN_CATALOG_URL", f"sqlite:///{place}")
    monkeypatch.setenv("AKIN_KEEP", "5")
    for number in range(6):
        with akin.index(PAPERS[number], data, encoder="hashing") as collection:
            collection.add(PAPERS[6 + number])
    assert (True, False) == (place.exists(), DataFolder(data).catalog.exists())
    assert 5 == len(list(DataFolder(data).snapshots.glob("0*")))
    # Indexing uses no cluster, so the device is this machine's, also where a service uses one.
    monkeypatch.setenv("AKIN_RAY", "127.0.0.1:1")
    monkeypatch.setenv("AKIN_DEVICE", "cuda:99")
    with pytest.raises(akin.AkinError, match="99"):
        akin.index(PAPERS[:1], tmp_path / "other", encoder="minilm")
