"""`akin status`: the segments, generations, disk use and pending papers of a collection."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.catalog.catalog import Catalog
from indexer.catalog.quarantine import QuarantinedPaper
from indexer.collection.delete import delete_papers
from indexer.collection.growth import MAX_ROWS
from indexer.collection.status import Status, status_of
from indexer.files.data_folder import CATALOG_FILE, KEEP, DataFolder
from models.encoder import Encoder
from models.errors import StorageError
from models.types import Paper, Sentence
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.commands import flat, run


@pytest.fixture
def data(tmp_path: Path, hashing: Encoder) -> Path:
    """Return a collection of two segments, of 20 and 5 papers, with a paper of the first deleted."""
    data = tmp_path / "data"
    build_quietly(write_corpus(tmp_path / "a.jsonl", many_papers(20)), data, hashing)
    build_quietly(write_corpus(tmp_path / "b.jsonl", many_papers(25)), data, hashing)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, ["p3"], catalog, keep=KEEP)
    return data


def paper(paper_id: str) -> Paper:
    """Return a paper that is in no segment."""
    return Paper(id=paper_id, title="New", abstract="One.", sentences=(Sentence("One.", 0, 4),))


def status(data: Path) -> Status:
    """Return the status of a collection."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        return status_of(data, catalog, data / CATALOG_FILE)


def test_segments_generations_and_disk_are_those_there(data: Path) -> None:
    """Papers and sizes match the files, no work is unfinished, and a merge would free the deleted share."""
    DataFolder(data).verified.write_bytes(b"{}")  # no work
    found = status(data)
    assert [("000001", 20, 1), ("000002", 5, 0)] == [
        (each.name, each.n_papers, each.n_deleted) for each in found.segments
    ]
    assert [("000001", 20), ("000002", 25), ("000003", 24)] == [
        (each.name, each.n_papers) for each in found.generations
    ]
    sizes = [file.stat().st_size for file in (data / "segments").rglob("*") if file.is_file()]
    assert sum(sizes) == found.disk.segments == sum(each.size_bytes for each in found.segments)
    assert 0 == found.disk.building
    assert found.disk.catalog >= (data / CATALOG_FILE).stat().st_size > 0
    assert found.segments[0].size_bytes // 20 == found.reclaimable_bytes
    run("compact", "--data", data)
    merged = status(data)
    assert (1, 0) == (len(merged.segments), merged.reclaimable_bytes)


def test_what_waits_is_counted_until_it_shows(data: Path) -> None:
    """Papers that differ between catalog and served generation are pending; a change taken back is not."""
    assert 0 == status(data).pending
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([paper("new"), paper("newer")])
        assert 2 == status(data).pending
        catalog.delete(["newer"])
        assert 1 == status(data).pending


def test_a_generation_that_cannot_be_read_is_named(data: Path) -> None:
    """An older generation with an unreadable manifest is listed with its problem."""
    DataFolder(data).manifest("000001").write_text("{}")
    assert [True, False, False] == [bool(each.problem) for each in status(data).generations]
    assert "cannot be read" in run("status", "--data", data)


def test_the_command_prints_tables_and_json(data: Path) -> None:
    """Table and JSON agree, and show quarantined papers with their reasons, with markup unchanged."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([paper("[red]bad:x:")])
        digest = catalog.changed_since(0)["[red]bad:x:"]
        refused = [QuarantinedPaper("[red]bad:x:", str(digest), "too [bold]odd")]
        catalog.note_encoding(status(data).manifest.models_key, [], refused)
    shown = flat(run("status", "--data", data))
    assert "[red]bad:x:: too [bold]odd" in shown
    assert "would make 1 segment of 2" in shown
    printed = json.loads(run("status", "--data", data, "--json"))
    assert (24, 0, "000003") == (printed["papers"], printed["pending"], printed["generation"])
    assert [{"id": "[red]bad:x:", "reason": "too [bold]odd"}] == printed["quarantine"]["listed"]
    assert ["000001", "000002"] == [each["name"] for each in printed["segments"]]
    assert 1 == printed["merge"]["segments"]


def test_all_of_a_long_quarantine_are_listed_as_json(data: Path) -> None:
    """The table lists ten quarantined papers and the number of the others; JSON lists all."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        bad = [paper(f"bad{number:02}") for number in range(12)]
        change = catalog.add(bad).previous
        refused = [QuarantinedPaper(key, str(of), "odd") for key, of in catalog.changed_since(change).items()]
        catalog.note_encoding(status(data).manifest.models_key, [], refused)
    shown = flat(run("status", "--data", data))
    assert "bad09: odd and 2 more: --json lists all" in shown
    listed = json.loads(run("status", "--data", data, "--json"))["quarantine"]["listed"]
    assert [each.id for each in bad] == [each["id"] for each in listed]


def test_full_segments_stay_apart(data: Path) -> None:
    """A merge joins neighbours that fit into one segment, not counting deleted papers."""
    found = status(data)
    half = replace(found.segments[0], n_papers=10, n_deleted=0, n_rows=MAX_ROWS // 2)
    more = replace(half, n_rows=half.n_rows + 1)
    for segments, n_merged in (
        ((half, half), 1),
        ((half, more), 2),
        ((half, replace(more, n_deleted=1)), 1),
        ((half, half, half, half, half), 3),
        ((more, more, more), 3),
    ):
        assert n_merged == replace(found, segments=segments).n_segments_merged


def test_nothing_indexed_and_another_catalog_are_clear_errors(data: Path, tmp_path: Path) -> None:
    """An empty folder and the catalog of another collection are refused."""
    (tmp_path / "empty").mkdir()
    assert "nothing is indexed here" in flat(run("status", "--data", tmp_path / "empty", status=1))
    with Catalog.open(tmp_path / "other.sqlite3") as other, pytest.raises(StorageError):
        status_of(data, other, tmp_path / "other.sqlite3")
