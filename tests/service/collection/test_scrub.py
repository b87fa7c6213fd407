"""Tests of the scrub: damage to served files is found and reported, and so is its repair."""

import time
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from indexer.catalog.catalog import Catalog
from indexer.collection.changes import publish_pending
from indexer.collection.delete import delete_papers
from indexer.collection.merging import compact
from indexer.files.data_folder import CATALOG_FILE, KEEP
from indexer.snapshot.checksum_record import ChecksumRecord, stamp_of
from indexer.snapshot.folder import current_generation, read_manifest
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder, load_encoder
from models.errors import SnapshotCorruptError
from models.types import Paper, Sentence
from service.app import create_app
from service.collection.generations import Engines, open_engine
from service.collection.scrub import EVERY_S, Scrub
from service.search.engine import SearchEngine
from service.settings import Settings
from service.timings import Timings
from tests.support.annotators import hashing_annotator
from tests.support.builds import build_quietly, files_of, many_papers, write_corpus
from tests.support.servers.patience import soon

SEARCH = {"query": {"paper_id": "p5"}, "limit": 3}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a collection of some papers, one of them deleted, to be copied."""
    folder = tmp_path_factory.mktemp("built")
    build_quietly(write_corpus(folder / "c.jsonl", many_papers(60)), folder / "data", hashing)
    with Catalog.open(folder / "data" / CATALOG_FILE) as catalog:
        delete_papers(folder / "data", ["p3"], catalog, keep=KEEP)
    return folder / "data"


@pytest.fixture
def data(built: Path, tmp_path: Path) -> Path:
    """Return this test's own copy of the collection."""
    return Path(copytree(built, tmp_path / "data"))


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


def flip_a_bit(path: Path) -> None:
    """Flip a bit of the last byte in place, which also changes the memory map of the file."""
    with path.open("r+b") as stream:
        stream.seek(-1, 2)
        last = stream.read(1)[0]
        stream.seek(-1, 2)
        stream.write(bytes([last ^ 1]))


def scrub_of(data: Path, clock: Clock, *, mib_s: float = 1000.0) -> tuple[Scrub, Engines]:
    """Return a scrub over the served generation, and the object that holds its engine."""
    engines = Engines(engine_of(data), data, reopen=None)
    return Scrub(engines, data, mib_s=mib_s, clock=clock), engines


def engine_of(data: Path) -> SearchEngine:
    """Return an engine over the served generation."""
    return SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=20)


def test_every_file_is_compared_once_a_day(data: Path) -> None:
    """A pass reads every file of the generation except its manifest; the next pass begins a day later."""
    clock = Clock()
    scrub, _ = scrub_of(data, clock)
    files = [path for path in files_of(data, "000002") if path.name != "manifest.json"]
    began_at = time.time()
    for _ in range(3):
        scrub.step()
    assert (len(files), sum(path.stat().st_size for path in files)) == (scrub.files, scrub.read_bytes)
    assert scrub.passed_at is not None
    assert began_at <= scrub.passed_at <= time.time()
    clock.now = 86_401.0
    scrub.step()
    assert 2 * len(files) == scrub.files


def test_no_step_reads_more_than_it_may(data: Path) -> None:
    """No step reads more bytes than the rate allows; several steps make up a pass."""
    clock = Clock()
    scrub, _ = scrub_of(data, clock, mib_s=0.02 / EVERY_S)
    most, before = int(0.02 * 2**20), 0
    while scrub.passed_at is None:
        scrub.step()
        assert scrub.read_bytes - before <= most
        before = scrub.read_bytes
    assert scrub.read_bytes > 3 * most
    assert 0 == scrub.damaged


@pytest.mark.parametrize(
    "name", ["vectors.npy", "papers.arrow", "words.arrow", "ids.npy", "offsets.npy", "deleted-000001.npy"]
)
def test_a_flipped_bit_is_found_and_a_repair_seen(data: Path, name: str) -> None:
    """A flipped bit is found in any file; its repair is noticed in the next pass, within minutes."""
    clock = Clock()
    scrub, _ = scrub_of(data, clock)
    (path,) = data.rglob(name)
    flip_a_bit(path)
    scrub.step()
    (degraded,) = scrub.degradations()
    assert (1, "snapshot") == (scrub.damaged, degraded.part)
    assert "akin reindex" in degraded.remedy
    # The previous generation has the same segment, but not the list of deleted papers.
    assert ("rollback --to 000001" in degraded.remedy) == (name == "deleted-000001.npy")
    flip_a_bit(path)
    clock.now = 601.0
    scrub.step()
    assert (0, []) == (scrub.damaged, scrub.degradations())


def test_a_missing_file_is_damage_but_not_one_that_is_served_no_more(data: Path) -> None:
    """A missing file counts as damage, unless its generation is no longer served."""
    clock = Clock()
    scrub, engines = scrub_of(data, clock)
    (path,) = data.rglob("papers.arrow")
    path.unlink()
    scrub.step()
    assert 1 == scrub.damaged
    corpus = write_corpus(data.parent / "d.jsonl", many_papers(5))
    build_quietly(corpus, data, load_encoder("hashing"), replace=True)
    engines.current = engine_of(data)
    assert (0, []) == (scrub.damaged, scrub.degradations())


def test_a_file_that_cannot_be_read_is_damage_and_the_others_are_compared(data: Path) -> None:
    """A read error counts as damage of that file alone, and ends when the file is restored."""
    clock = Clock()
    scrub, _ = scrub_of(data, clock)
    (path,) = data.rglob("vectors.npy")
    kept = path.rename(path.with_name("kept"))
    path.symlink_to("/proc/self/mem")  # reading its beginning is an I/O error
    scrub.step()
    assert (1, True) == (scrub.damaged, scrub.passed_at is not None)
    kept.replace(path)
    clock.now = 601.0
    scrub.step()
    assert 0 == scrub.damaged


def test_the_next_start_reads_what_the_scrub_found(data: Path) -> None:
    """Once the scrub has found damage, the next start finds it too, even with unchanged file times."""
    (path,) = data.rglob("vectors.npy")
    sha256 = read_manifest(data, current_generation(data)).segments[0].files[path.name]
    scrub, _ = scrub_of(data, Clock())
    flip_a_bit(path)
    time.sleep(2.1)  # only a file left alone for a while is remembered as verified
    verified = ChecksumRecord(data)
    verified.remember(path, sha256, stamp_of(path))
    verified.save()
    settings = Settings(data=data, device="cpu")
    open_engine(settings)
    scrub.step()
    with pytest.raises(SnapshotCorruptError, match=r"vectors\.npy"):
        open_engine(settings)


def test_damage_is_not_copied_into_new_segments(data: Path, hashing: Encoder) -> None:
    """Neither compaction nor an addition copies damaged vectors under a new checksum."""
    text = "Whales sing."
    whales = [Paper(f"w{i}", "Whales", text, (Sentence(text, 0, len(text)),)) for i in range(80)]
    snapshot = open_snapshot(data)
    flip_a_bit(next(data.rglob("vectors.npy")))
    with pytest.raises(SnapshotCorruptError, match=r"vectors\.npy"):
        compact(data, snapshot, device="cpu", keep=KEEP)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add(whales)
        publish_pending(
            data, hashing_annotator(), catalog, on_progress=lambda *_: None, keep=KEEP, base=snapshot
        )
    manifest = read_manifest(data, current_generation(data))
    assert 2 == len(manifest.segments)
    assert manifest.segments[0].is_same_as(snapshot.segments[0].entry)
    with pytest.raises(SnapshotCorruptError, match=r"vectors\.npy"):
        open_snapshot(data)


@pytest.fixture
def client(data: Path) -> Iterator[TestClient]:
    """Yield a client of a service that scrubs its files without pauses."""
    settings = Settings(data=data, keyless="write", device="cpu", rate=0, cache_mib=0, scrub_mib_s=1000.0)
    timings = Timings(scrub_pause_s=0.0, scrub_damaged_pause_s=0.0)
    app = create_app(settings, engine_of(data), timings=timings)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def metric(client: TestClient, name: str) -> float | None:
    """Return the value of an unlabelled metric of /metrics, or ``None``."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    return next((s.value for family in families for s in family.samples if s.name == name), None)


def test_a_service_tells_of_damage_and_answers_on(client: TestClient, data: Path) -> None:
    """/readyz and /metrics report a flipped bit and its repair; searches are answered meanwhile."""

    def parts() -> list[str]:
        return [each["part"] for each in client.get("/readyz").json()["degraded"]]

    soon(lambda: metric(client, "akin_scrub_last_pass_timestamp_seconds") is not None)
    assert 0 == metric(client, "akin_scrub_damaged_files")
    assert (
        0 < (metric(client, "akin_scrub_files_total") or 0) < (metric(client, "akin_scrub_bytes_total") or 0)
    )
    path = next(data.rglob("vectors.npy"))
    flip_a_bit(path)
    soon(lambda: parts() == ["snapshot"])
    assert (1, 200) == (
        metric(client, "akin_scrub_damaged_files"),
        client.post("/v1/search", json=SEARCH).status_code,
    )
    assert str(data) not in client.get("/readyz").text
    flip_a_bit(path)
    soon(lambda: parts() == [])


def test_the_collection_is_shown(client: TestClient) -> None:
    """/metrics shows segments, deleted papers, pending changes, and the times of publication and swap."""
    began_at = int(time.time())
    assert (1, 1, 0, None) == tuple(
        metric(client, f"akin_{name}")
        for name in ("segments", "deleted_papers", "pending_changes", "last_swap_timestamp_seconds")
    )
    paper = {"id": "w", "title": "Whales", "abstract": "Whales sing."}
    assert 202 == client.post("/v1/papers", json={"papers": [paper]}).status_code
    soon(lambda: client.get("/v1/papers/w").status_code == 200)
    assert (2, 0, 0) == tuple(
        metric(client, f"akin_{name}") for name in ("segments", "pending_changes", "failed_swaps_total")
    )
    for name in ("generation_created", "last_swap"):
        assert began_at <= (metric(client, f"akin_{name}_timestamp_seconds") or 0) <= time.time()


def test_it_may_be_turned_off(data: Path) -> None:
    """With a rate of 0 the scrub reads nothing."""
    scrub, _ = scrub_of(data, Clock(), mib_s=0.0)
    scrub.step()
    assert (0, None) == (scrub.read_bytes, scrub.passed_at)
