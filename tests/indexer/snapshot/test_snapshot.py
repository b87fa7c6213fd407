"""Snapshots: published whole, verified before they are read, rolled back on request."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unicodedata import normalize

import pytest

from indexer.catalog.catalog import Catalog
from indexer.collection.delete import delete_papers
from indexer.collection.rollback import rollback
from indexer.files.data_folder import CATALOG_FILE, DataFolder
from indexer.files.durable import publish_folder, replace_file, storage_errors, writer_lock
from indexer.snapshot.columns import Columns, allowed_papers, papers_to_table
from indexer.snapshot.folder import current_generation, read_manifest, verify
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot, served_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.checksums import digest_of
from models.encoder import Encoder, load_encoder
from models.errors import (
    BuildLockedError,
    EncoderMismatchError,
    PaperNotFoundError,
    SnapshotCorruptError,
    SnapshotMissingError,
    StorageError,
)
from models.types import EncoderSpec, Facet, Filters, Paper, Sentence, Unit
from tests.support.builds import DEMO_CORPUS, build_quietly, files_of


@pytest.fixture
def data(hashed_data: Path, tmp_path: Path) -> Path:
    """Return a copy of the hashed collection that a test may damage."""
    copy = tmp_path / "data"
    shutil.copytree(hashed_data, copy)
    return copy


def all_files(data: Path) -> list[Path]:
    """Return every file of the served generation."""
    return files_of(data, current_generation(data))


def publish_without(data: Path, paper_id: str, *, keep: int = 1) -> None:
    """Publish a generation without a paper."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, [paper_id], catalog, keep=keep)


def go_back(data: Path, to: str | None = None) -> Manifest:
    """Roll a data folder back, with its catalog, and return the manifest."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        return rollback(data, to, catalog=catalog).manifest


def test_papers_survive_their_columns() -> None:
    """A paper read back from Arrow columns equals the one written, also with fields absent."""
    full = Paper(
        id="a/b c",
        title="Ünïcode 🙂",
        abstract="One 🙂. Two.",
        sentences=(Sentence("One 🙂.", 0, 6, Facet.METHOD), Sentence("Two.", 7, 11)),
        year=2020,
        venue="V",
        authors=("A", "B"),
        url="u",
        doi="10.1/x",
        fields=("F",),
    )
    bare = Paper(id="x", title="t", abstract="s", sentences=(Sentence("s", 0, 1),))
    table = papers_to_table([full, bare])
    assert [full, bare] == [Columns(table).paper(0), Columns(table).paper(1)]
    assert replace(full, abstract="", sentences=()) == Columns(table).paper(0, text=False)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(), [True, True, True]),
        (Filters(year_from=2000), [True, True, False]),
        (Filters(year_to=2000), [False, True, False]),
        (Filters(venues=("acl",)), [True, False, False]),
        (Filters(fields=("BIOLOGY", "physics")), [False, True, True]),
        (Filters(authors=("o. khan", "ANN LEE")), [True, False, True]),
        (Filters(authors=("JOST WEISS",)), [False, True, False]),
        (Filters(venues=("Straßen",)), [False, True, False]),
        (Filters(authors=("Zoë Çelik",)), [False, False, True]),
        (Filters(year_from=1990, fields=("biology",)), [False, True, False]),
    ],
)
def test_filters_select_papers(filters: Filters, expected: list[bool]) -> None:
    """Years are inclusive, names match in any case, and a paper without the field never matches."""

    def make(name: str, **fields: object) -> Paper:
        return Paper(id=name, title="t", abstract="s", sentences=(Sentence("s", 0, 1),), **fields)  # type: ignore[arg-type]  # keywords pass through

    table = papers_to_table(
        [
            make("a", year=2001, venue="ACL", fields=("Linguistics",), authors=("Bo Li", "Ann Lee")),
            make("b", year=2000, venue="STRASSEN", fields=("Biology", "Chemistry"), authors=("Jost Weiß",)),
            make("c", venue="PRL", fields=("Physics",), authors=("O. Khan", normalize("NFD", "Zoë Çelik"))),
        ]
    )
    assert expected == allowed_papers(table, filters).tolist()


def test_every_paper_is_found_by_its_id(hashed_snapshot: Snapshot) -> None:
    """Each id gives the position of its paper, which has one vector for each sentence."""
    for position in range(len(hashed_snapshot)):
        paper = hashed_snapshot.paper(position)
        assert position == hashed_snapshot.position(paper.id)
        assert len(paper.sentences) == len(hashed_snapshot.vectors(position))


@pytest.mark.parametrize("paper_id", ["", "demo:p03-m7", "../../etc/passwd", "\ud800", "x" * 10_000])
def test_an_unknown_id_is_not_found(hashed_snapshot: Snapshot, paper_id: str) -> None:
    """Any unknown id raises PaperNotFoundError."""
    with pytest.raises(PaperNotFoundError):
        hashed_snapshot.position(paper_id)


def test_the_manifest_tells_what_the_snapshot_holds(data: Path, hashing: Encoder) -> None:
    """The manifest has the counts, encoder and metric, and names every other file."""
    manifest = verify(data, current_generation(data))
    assert (100, hashing.spec, "L2") == (manifest.n_papers, manifest.encoder, manifest.metric)
    assert {p.name for p in all_files(data)} == {"manifest.json", *manifest.segments[0].files}


@pytest.mark.parametrize("tau", [None, 5000.0])
def test_the_manifest_keeps_the_temperature_of_its_encoder(data: Path, tau: float | None) -> None:
    """The manifest stores the temperature of its encoder, and an older one without it gives ``None``."""
    manifest = read_manifest(data, "000001")
    content = replace(manifest, encoder=replace(manifest.encoder, tau=tau)).to_json()
    if tau is None:
        fields = json.loads(content)
        del fields["encoder"]["tau"], fields["sha256"]
        content = json.dumps({**fields, "sha256": digest_of(fields)}).encode()
    read = Manifest.from_json(content, Path("manifest.json"))
    assert (tau, manifest.encoder) == (read.encoder.tau, read.encoder)


def test_a_folder_without_snapshot_says_what_to_do(tmp_path: Path) -> None:
    """An empty data folder raises SnapshotMissingError, which names `akin index`."""
    with pytest.raises(SnapshotMissingError, match="akin index"):
        open_snapshot(tmp_path)


def test_a_dangling_pointer_is_reported(data: Path) -> None:
    """CURRENT with the name of a missing generation or with a path raises SnapshotMissingError."""
    for name in ("000099", "../000001", ""):
        (data / "CURRENT").write_text(name)
        with pytest.raises(SnapshotMissingError):
            open_snapshot(data)


def test_another_encoder_is_refused(hashed_snapshot: Snapshot) -> None:
    """A snapshot refuses an encoder with a different fingerprint."""
    spec = EncoderSpec("other", "0" * 64, 256, True, Unit.SENTENCE)
    with pytest.raises(EncoderMismatchError, match="hashing"):
        hashed_snapshot.manifest.expect_encoder(spec)


def test_rollback_serves_the_previous_generation(data: Path) -> None:
    """A rollback goes back one generation; a named one can also be newer."""
    build_quietly(DEMO_CORPUS, data, load_encoder("hashing"), limit=10, replace=True)
    assert (["000001", "000002"], "000002") == (DataFolder(data).generations(), current_generation(data))
    assert "000001" == go_back(data).generation == open_snapshot(data).generation
    with pytest.raises(SnapshotMissingError, match="000002"):
        go_back(data)
    assert "000002" == go_back(data, "000002").generation


def test_rollback_never_serves_a_damaged_generation(data: Path) -> None:
    """A rollback to a damaged generation fails and leaves the served one."""
    build_quietly(DEMO_CORPUS, data, load_encoder("hashing"), limit=10, replace=True)
    next(path for path in files_of(data, "000001") if path.suffix == ".npy").write_bytes(b"")
    with pytest.raises(SnapshotCorruptError):
        go_back(data)
    assert "000002" == current_generation(data)


def test_a_manifest_of_a_later_format_is_refused(data: Path) -> None:
    """An unknown format version is refused, even with a right checksum."""
    manifest = read_manifest(data, "000001")
    object.__setattr__(manifest, "format_version", 99)
    DataFolder(data).manifest("000001").write_bytes(manifest.to_json())
    with pytest.raises(SnapshotCorruptError, match=r"version 99.* run `akin reindex`, which"):
        open_snapshot(data)


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{}", b'{"sha256": 1}', b"\xff", b"[" * 100_000])
def test_a_file_that_is_no_manifest_is_refused(data: Path, content: bytes) -> None:
    """A manifest.json that is not a manifest raises SnapshotCorruptError."""
    DataFolder(data).manifest("000001").write_bytes(content)
    with pytest.raises(SnapshotCorruptError):
        open_snapshot(data)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    """A second writer is refused at once, and the lock is free afterwards."""
    lock = tmp_path / "LOCK"
    with writer_lock(lock), pytest.raises(BuildLockedError), writer_lock(lock):
        pass
    with writer_lock(lock):
        pass


def test_a_full_disk_is_a_clear_error() -> None:
    """Writing to a full device raises a StorageError that says the disk is full."""
    with pytest.raises(StorageError, match="disk is full"), storage_errors(Path("/dev/full")):
        Path("/dev/full").write_bytes(b"x" * 100_000)


def test_publishing_moves_the_whole_folder(tmp_path: Path) -> None:
    """A published folder is at its target with its content, and the prepared one is gone."""
    prepared = tmp_path / "new"
    (prepared / "inner").mkdir(parents=True)
    (prepared / "inner" / "file").write_text(json.dumps(1))
    publish_folder(prepared, tmp_path / "final")
    assert (False, "1") == (prepared.exists(), (tmp_path / "final" / "inner" / "file").read_text())


def test_replacing_a_file_leaves_no_trace_beside_it(tmp_path: Path) -> None:
    """``replace_file`` leaves only the file with its new content."""
    path = tmp_path / "CURRENT"
    replace_file(path, b"1")
    replace_file(path, b"2")
    assert ([path], b"2") == (list(tmp_path.iterdir()), path.read_bytes())


@pytest.mark.parametrize("reopen", [open_snapshot, served_snapshot])
def test_a_generation_cleared_away_while_it_is_looked_up_is_no_failure(
    data: Path, monkeypatch: pytest.MonkeyPatch, reopen: Callable[..., Snapshot]
) -> None:
    """If the generation is removed while a reader opens it, the reader gets a newer one."""
    first = open_snapshot(data)
    publish_without(data, "demo:p00-m00")
    left = ["demo:p00-m01", "demo:p00-m02"]

    generations = DataFolder.generations

    def others_publish(folder: DataFolder) -> list[str]:
        published, left[:] = left[:], []
        for paper_id in published:
            publish_without(data, paper_id)
        return generations(folder)

    monkeypatch.setattr(DataFolder, "generations", others_publish)
    assert "000004" == reopen(data, beside=first).generation


def test_what_a_crash_left_half_removed_keeps_nobody_from_publishing(data: Path) -> None:
    """Half-removed folders left by a crash are removed by later publications."""
    shutil.copytree(data / "snapshots" / "000001", data / "snapshots" / "000001.discarded")
    for name in ("000007", "000007.discarded"):
        shutil.copytree(data / "segments" / "000001", data / "segments" / name)
    for paper_id in ("demo:p00-m00", "demo:p00-m01"):
        publish_without(data, paper_id)
    assert ["000002", "000003"] == sorted(path.name for path in (data / "snapshots").iterdir())
    assert ["000001"] == [path.name for path in (data / "segments").iterdir()]
