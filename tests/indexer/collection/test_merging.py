"""Segments are merged without holding the lock: answers stay the same, and concurrent changes are kept."""

import shutil
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

import akin
from indexer.catalog.catalog import Catalog
from indexer.collection import build as building
from indexer.collection import merging
from indexer.collection.delete import delete_papers
from indexer.collection.merging import Tiers, compact, merge
from indexer.collection.purge import purge_papers
from indexer.collection.rollback import rollback
from indexer.files.data_folder import CATALOG_FILE, KEEP, DataFolder, Work
from indexer.files.durable import writer_lock
from indexer.snapshot.folder import current_generation
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.errors import BuildLockedError, SnapshotCorruptError, StorageError
from service.collection import served
from service.collection.ingest import Ingest
from service.search.engine import SearchEngine
from service.timings import Timings
from tests.support.annotators import hashing_annotator
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.clients import client_of
from tests.support.commands import flat, run
from tests.support.same_answers import assert_same_answers, found_by, ids_of
from tests.support.servers.patience import soon

PAIRS = Tiers(fewest=2)
QUERY_IDS = [f"p{i}" for i in (0, 31, 50, 71)]
SIZES = (24, 20, 18, 16)  # of segments: each is smaller than the one before, so none is merged yet


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a collection of four segments of similar size; treat it as read-only."""
    return in_segments(tmp_path_factory.mktemp("made"), SIZES, hashing)


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """Return a copy of ``made``."""
    return Path(shutil.copytree(made, tmp_path / "data"))


def in_segments(folder: Path, sizes: Sequence[int], encoder: Encoder) -> Path:
    """Return a collection that was indexed in one step per size."""
    for number in range(len(sizes)):
        corpus = write_corpus(folder / f"{number}.jsonl", many_papers(sum(sizes[: number + 1])))
        build_quietly(corpus, folder / "data", encoder)
    return folder / "data"


def delete(data: Path, *ids: str) -> Manifest:
    """Delete papers."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        return delete_papers(data, ids, catalog, keep=KEEP).manifest


def meanwhile(monkeypatch: pytest.MonkeyPatch, happen: Callable[[], object]) -> None:
    """Call ``happen`` once, after the next merged segment is written and before it is published."""
    write, times = merging.prepare_segments, [happen]

    def writing(*args: object, **named: object) -> object:
        entry = write(*args, **named)  # type: ignore[arg-type]  # passed on
        if times:
            times.pop()()
        return entry

    monkeypatch.setattr(merging, "prepare_segments", writing)


def test_neighbours_of_like_size_become_one(data: Path) -> None:
    """Merging joins neighbours of similar size, and every search returns the same rows and scores."""
    before = open_snapshot(data)
    assert list(SIZES) == [len(segment) for segment in before.segments]
    manifest = merge(data, tiers=PAIRS, keep=KEEP)
    after = open_snapshot(data)
    assert manifest is not None
    assert manifest.generation == after.generation == current_generation(data)
    assert len(after.segments) < len(SIZES)
    assert_same_answers(before, after, QUERY_IDS)
    assert merge(data, tiers=PAIRS, keep=KEEP) is None


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        (Tiers(fewest=3), range(3)),
        (Tiers(fewest=4), range(4)),
        (Tiers(fewest=5), None),
        (Tiers(fewest=2, most_rows=10), None),
    ],
)
def test_which_are_due(data: Path, tiers: Tiers, expected: range | None) -> None:
    """The first run of enough neighbours of one tier within the bound is due for a merge."""
    assert expected == tiers.due(open_snapshot(data))


@pytest.mark.parametrize(
    "drawn",
    [
        lambda draw, _: draw.randint(1, 15),
        lambda _, number: 7_000 if number % 2 else 7,
        lambda _, number: 7_000 if number % 9 == 8 else 7,
        lambda draw, _: round(draw.lognormvariate(3, 3)) + 1,
    ],
    ids=["single papers", "in turns", "seldom many", "any"],
)
def test_segments_stay_few_whatever_is_added(drawn: Callable[[Random, int], int]) -> None:
    """For any sequence of sizes, the number of segments and of copied vectors stays small."""
    draw, sizes, n_added, n_copied, most = Random(0), [2_000_000], 0, 0, 0
    for number in range(2_000):
        sizes.append(drawn(draw, number))
        n_added += sizes[-1]
        while (run := Tiers(most_rows=1 << 40).run(sizes)) is not None:
            merged = sum(sizes[run.start : run.stop])
            n_copied += merged * (run.start > 0)
            sizes[run.start : run.stop] = [merged]
        most = max(most, len(sizes))
    assert most < 40
    assert n_copied < 5 * n_added


@pytest.mark.parametrize("largest", [20, 300, 4_000])
def test_segments_are_filled_up_to_their_bound(largest: int) -> None:
    """With a bound on vectors per segment, segments are filled well and rarely copied."""
    draw, tiers, sizes, n_added, n_copied = Random(0), Tiers(most_rows=5_000), list[int](), 0, 0
    while n_added < 100_000:
        sizes.append(draw.randint(1, largest))
        n_added += sizes[-1]
        while (run := tiers.run(sizes)) is not None:
            merged = sum(sizes[run.start : run.stop])
            assert merged <= tiers.most_rows
            n_copied += merged
            sizes[run.start : run.stop] = [merged]
    assert len(sizes) < 40 + 2 * n_added / tiers.most_rows
    assert n_copied < 6 * n_added


def test_what_is_mostly_deleted_is_written_anew(data: Path) -> None:
    """A segment with more than half of its vectors deleted is rewritten alone."""
    delete(data, *(f"p{i}" for i in range(28, 44)))
    assert range(1, 2) == Tiers().due(open_snapshot(data))
    manifest = merge(data, keep=KEEP)
    assert manifest is not None
    assert [(24, 0), (4, 0), (18, 0), (16, 0)] == [
        (each.n_papers, each.n_deleted) for each in manifest.segments
    ]


def test_papers_deleted_meanwhile_stay_deleted(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Papers deleted during a merge are in no answer, although the merged segment holds their text."""
    meanwhile(monkeypatch, lambda: delete(data, "p3", "p30", "p70"))
    compact(data, open_snapshot(data), device="cpu", keep=KEEP)
    snapshot = open_snapshot(data)
    assert [(78, 3)] == [(each.n_papers, each.n_deleted) for each in snapshot.manifest.segments]
    assert sorted({f"p{i}" for i in range(78)} - {"p3", "p30", "p70"}) == ids_of(snapshot)
    assert all({"p3", "p30", "p70"}.isdisjoint(found) for found in found_by(snapshot, *QUERY_IDS))


def test_papers_that_come_meanwhile_are_there(
    data: Path, tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Papers added or replaced during a merge are served after it."""
    changed = {**many_papers(1)[0], "abstract": ["Whales sing.", "We count whales."]}
    new = [{**many_papers(1)[0], "id": "new"}, changed]
    meanwhile(
        monkeypatch,
        lambda: build_quietly(write_corpus(tmp_path / "new.jsonl", new), tmp_path / "data", hashing),
    )
    with pytest.raises(BuildLockedError), writer_lock(data / "building" / "merge.lock"):
        compact(data, open_snapshot(data), device="cpu", keep=KEEP)
    compact(data, open_snapshot(data), device="cpu", keep=KEEP)
    snapshot = open_snapshot(data)
    assert sorted({"new", *(f"p{i}" for i in range(78))}) == ids_of(snapshot)
    assert 2 == len(snapshot.segments)
    assert 2 == len(snapshot.paper(snapshot.position("p0")).sentences)


def test_a_rollback_meanwhile_wins(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a rollback restores a paper during a merge, the merged segment is discarded; a later merge works."""
    delete(data, "p5")

    def go_back() -> None:
        with Catalog.open(data / CATALOG_FILE) as catalog:
            rollback(data, catalog=catalog)

    meanwhile(monkeypatch, go_back)
    assert merge(data, tiers=Tiers(fewest=4), keep=KEEP) is None
    assert 4 == len(open_snapshot(data).segments)
    assert "p5" in ids_of(open_snapshot(data))
    assert not list((data / "building").glob("merge*/*"))
    assert merge(data, tiers=Tiers(fewest=4), keep=KEEP) is not None
    assert sorted({f"p{i}" for i in range(78)}) == ids_of(open_snapshot(data))


def test_the_next_merge_takes_away_what_a_killed_one_left(data: Path) -> None:
    """A merge with nothing to do removes the folder that a killed one left."""
    left = data / "building" / "merge" / "segment-of-before"
    left.mkdir(parents=True)
    assert merge(data, tiers=Tiers(fewest=5), keep=KEEP) is None
    assert not left.parent.exists()


def test_a_compaction_takes_it_away_from_a_compact_collection_too(data: Path) -> None:
    """A compaction with nothing to do removes the folder of a killed one and publishes nothing."""
    assert "into one of 78 papers" in run("compact", "--data", data, "--device", "cpu")
    left = data / "building" / "merge" / "segment-of-before"
    left.mkdir(parents=True)
    served = current_generation(data)
    assert "nothing to merge" in run("compact", "--data", data, "--device", "cpu")
    assert not left.parent.exists()
    assert served == current_generation(data)


def test_a_purge_takes_what_a_stopped_merge_left(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A purge removes the segment that a stopped merge left."""

    def stop() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        meanwhile(stopped, stop)
        with pytest.raises(KeyboardInterrupt):
            compact(data, open_snapshot(data), device="cpu", keep=KEEP)
    assert [*data.glob("building/merge/segment-*/papers.arrow")]
    with Catalog.open(data / CATALOG_FILE) as catalog:
        purge_papers(data, ["p7"], catalog)
    assert not [*data.glob("building/merge/segment-*")]


def test_many_corpora_of_like_size_are_merged_by_the_last(tmp_path: Path, hashing: Encoder) -> None:
    """`akin index` merges eight neighbouring segments of similar size."""
    sizes = [28 - i for i in range(8)]
    data = in_segments(tmp_path, sizes[:7], hashing)
    assert sizes[:7] == [len(segment) for segment in open_snapshot(data).segments]
    build_quietly(write_corpus(tmp_path / "last.jsonl", many_papers(sum(sizes))), data, hashing)
    assert [sum(sizes)] == [len(segment) for segment in open_snapshot(data).segments]


def test_a_service_merges_by_itself(tmp_path: Path, hashing: Encoder) -> None:
    """A service that receives an eighth segment of similar size merges them while it answers requests."""
    sizes = [28 - i for i in range(8)]
    data = in_segments(tmp_path, sizes[:7], hashing)
    engine = SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=50)
    timings = Timings(merge_every_s=0.05)
    with client_of(data, engine, device="cpu", keyless="write", timings=timings) as client:
        papers = [
            {**paper, "abstract": " ".join(paper["abstract"])}  # type: ignore[arg-type]  # a list of texts
            for paper in many_papers(sum(sizes))[sum(sizes[:7]) :]
        ]
        assert 202 == client.post("/v1/papers", json={"papers": papers}).status_code
        soon(lambda: 1 == len(open_snapshot(data).segments), timeout_s=60)
        body = {"query": {"paper_id": "p1"}, "limit": 100}
        soon(lambda: client.get("/readyz").json()["generation"] == current_generation(data))
        assert 100 == len(client.post("/v1/search", json=body).json()["results"])


def test_a_merge_that_has_no_room_writes_nothing(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk has less free than the live part of the segments, a merge fails before it writes any."""
    delete(data, *(f"p{i}" for i in range(20)))
    first = DataFolder(data).segment(open_snapshot(data).segments[0].entry.name)
    size = sum(file.stat().st_size for file in first.iterdir())
    written: list[object] = []
    monkeypatch.setattr(merging, "prepare_segments", lambda *given, **_: written.append(given) or [])
    for free in (0, size // 10):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        with pytest.raises(StorageError, match=r"merging 1 segment takes 0.*free some space"):
            merge(data, tiers=PAIRS, keep=KEEP)
    assert [] == written
    monkeypatch.undo()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=size // 3))
    assert merge(data, tiers=Tiers(fewest=100), keep=KEEP) is not None  # a sixth of it is copied


@pytest.mark.parametrize("why", ["damaged", "without room"])
def test_what_cannot_be_merged_does_not_keep_others_apart(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """Of two merges that are due, the second is done if the first cannot be; then the error is raised."""
    data = in_segments(tmp_path, (32, 32, 9, 9), hashing)
    base = open_snapshot(data)
    before = [segment.entry.name for segment in base.segments]
    folders = [DataFolder(data).segment(name) for name in before]
    sizes = [sum(file.stat().st_size for file in folder.iterdir()) for folder in folders]
    error: type[Exception] = StorageError
    if why == "damaged":
        vectors = bytearray((folders[1] / "vectors.npy").read_bytes())
        vectors[-1] ^= 1
        (folders[1] / "vectors.npy").write_bytes(vectors)
        error = SnapshotCorruptError
    else:
        free = sum(sizes) // 2
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(error):
        merge(data, base, tiers=PAIRS, keep=KEEP)
    after = [segment.entry.name for segment in open_snapshot(data, beside=base).segments]
    assert (before[:2], 3) == (after[:2], len(after))


def test_indexing_reports_the_generation_that_a_merge_left(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If only some of the segments that are due can be merged, the report is of what is served then."""
    data = in_segments(tmp_path, (32, 32, 9), hashing)
    segments = DataFolder(data).segments.iterdir()
    free = sum(file.stat().st_size for segment in segments for file in segment.iterdir()) // 2
    monkeypatch.setattr(building, "merge", partial(merge, tiers=PAIRS))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    report = build_quietly(write_corpus(tmp_path / "c.jsonl", many_papers(82)), data, hashing)
    assert "free some space" in report.unmerged
    assert (current_generation(data), 3) == (report.manifest.generation, len(report.manifest.segments))


def test_a_merge_makes_room_by_removing_what_a_killed_one_wrote(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the files of a killed merge take the room that a merge needs, they are removed first."""
    left = DataFolder(data).work(Work.MERGE) / "segment-0" / "vectors.npy"
    left.parent.mkdir(parents=True)
    left.touch()
    free = {True: 0, False: 1 << 30}
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free[left.exists()]))
    assert merge(data, tiers=PAIRS, keep=KEEP) is not None


def test_indexing_that_cannot_merge_publishes_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`akin index` publishes its papers and says why segments were not merged; the library warns."""
    sizes, data = [28 - i for i in range(9)], tmp_path / "data"
    corpora = [write_corpus(tmp_path / f"{n}.jsonl", many_papers(sum(sizes[:n]))) for n in range(1, 10)]
    for corpus in corpora[:7]:
        akin.index(corpus, data, encoder="hashing", device="cpu").close()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    shown = flat(run("index", corpora[7], "--data", data))
    assert "Segments were not merged:" in shown
    assert "free some space" in shown
    with pytest.warns(UserWarning, match=r"Segments were not merged: .*free some space"):
        akin.index(corpora[8], data, device="cpu").close()
    assert sizes == [len(segment) for segment in open_snapshot(data).segments]


def test_a_service_of_a_read_only_folder_writes_nothing(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replicas with a read-only folder do not try to publish or merge, so nothing of it is degraded."""
    data = in_segments(tmp_path, (4, 3), hashing)
    tries: list[object] = []
    monkeypatch.setattr(served, "is_read_only", lambda _: True)
    for written in ("merge", "keep_up"):
        monkeypatch.setattr(Ingest, written, lambda *given: tries.append(given))
    engine = SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=50)
    timings = Timings(merge_every_s=0.01, publish_every_s=0.01)
    with client_of(data, engine, device="cpu", timings=timings) as client:
        time.sleep(0.1)
        assert 200 == client.get("/readyz").status_code
    assert [] == tries


def test_a_service_does_not_repeat_a_merge_that_failed_at_once(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service waits after a merge that failed, and says that segments are not merged."""
    data = in_segments(tmp_path, (4, 3), hashing)
    tries: list[object] = []

    def failing(*given: object, **_: object) -> None:
        tries.append(given)
        raise StorageError("no room")

    monkeypatch.setattr("service.collection.ingest.merge", failing)
    monkeypatch.setattr("service.collection.ingest.TIERS", PAIRS)
    engine = SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=50)
    with client_of(data, engine, device="cpu", timings=Timings(merge_every_s=0.01)) as client:
        soon(lambda: "merges" in client.get("/readyz").text)
        time.sleep(0.1)
        assert 1 == len(tries)
