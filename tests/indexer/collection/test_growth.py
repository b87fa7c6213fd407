"""A collection that grows and shrinks answers as a new build would, and encodes nothing twice."""

import shutil
import tracemalloc
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path

import numpy as np
import pytest

from indexer.catalog.catalog import Catalog, Change
from indexer.collection import changes, growth
from indexer.collection import rollback as rollback_module
from indexer.collection.changes import PublishedState, differing_papers, publish_pending
from indexer.collection.delete import Deletion, delete_papers
from indexer.collection.growth import publish_added
from indexer.collection.merging import compact, merge
from indexer.collection.rollback import rollback
from indexer.files.data_folder import CATALOG_FILE, KEEP, DataFolder
from indexer.index.vector_index import build_index
from indexer.snapshot.folder import current_generation, write_pointer
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.segment import Segment
from indexer.snapshot.snapshot import Snapshot
from models.encoder import Encoder, load_encoder
from models.errors import (
    BuildLockedError,
    EncoderMismatchError,
    PaperNotFoundError,
    SnapshotMissingError,
    StorageError,
)
from models.types import EncoderSpec, Filters, Paper, Sentence
from service.search.engine import SearchEngine
from tests.support.annotators import annotated, hashing_annotator
from tests.support.builds import (
    Counting,
    Refusing,
    build_quietly,
    many_papers,
    paper_in,
    quiet,
    write_corpus,
    written_before,
)
from tests.support.commands import flat, run
from tests.support.same_answers import assert_same_answers, found_by
from tests.support.servers.patience import soon


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a collection of 60 papers; treat it as read-only."""
    folder = tmp_path_factory.mktemp("made")
    build_quietly(write_corpus(folder / "first.jsonl", many_papers(60)), folder / "data", hashing)
    return folder / "data"


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """Return a copy of ``made``."""
    return shutil.copytree(made, tmp_path / "data")


def add(data: Path, papers: Sequence[dict[str, object]], encoder: Encoder | None = None) -> int:
    """Index papers into a collection, and return how many were encoded."""
    counting = Counting(encoder or load_encoder("hashing"))
    build_quietly(write_corpus(data.parent / "more.jsonl", papers), data, counting)
    return counting.n_encoded


def delete(data: Path, ids: Sequence[str]) -> Deletion:
    """Delete papers of a collection."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        return delete_papers(data, ids, catalog, keep=KEEP)


def publish_into(data: Path, encoder: Encoder) -> PublishedState:
    """Bring a collection in line with the catalog."""
    annotator = annotated(encoder)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        return publish_pending(data, annotator, catalog, on_progress=quiet, keep=KEEP)


def test_only_what_is_new_is_encoded(data: Path) -> None:
    """If a corpus overlaps the collection, only the new papers are encoded, and all are found."""
    assert add(data, many_papers(70)) == 10
    snapshot = open_snapshot(data)
    assert (70, "000002") == (len(snapshot), snapshot.generation)
    assert [60, 10] == [len(segment) for segment in snapshot.segments]
    assert "p65" == snapshot.paper(snapshot.position("p65")).id


def test_what_is_there_already_makes_no_generation(data: Path) -> None:
    """Indexing the same corpus again publishes nothing, and the report says so."""
    report = build_quietly(
        write_corpus(data.parent / "c.jsonl", many_papers(60)), data, load_encoder("hashing")
    )
    assert (0, 60, "000001") == (
        report.staging.n_papers,
        report.staging.unchanged,
        report.manifest.generation,
    )
    assert ["000001"] == DataFolder(data).generations()


def test_a_paper_with_new_content_replaces_the_old_one(data: Path) -> None:
    """A changed paper is found under its id, and its old vectors are no longer searched."""
    changed = {**many_papers(8)[7], "abstract": ["Whales sing.", "We count whales."]}
    assert add(data, [changed]) == 1
    snapshot = open_snapshot(data)
    position = snapshot.position("p7")
    assert (60, 2) == (len(snapshot), len(snapshot.paper(position).sentences))
    assert 61 == len(snapshot.live)
    assert not snapshot.live[7]
    assert not snapshot.allowed_papers(Filters())[7]
    assert [position] == snapshot.find_all(["p7"]).tolist()


def test_a_deleted_paper_is_in_no_answer(data: Path) -> None:
    """Deleted papers are not found, counted or suggested, and unknown ids are reported."""
    done = delete(data, ["p3", "p4", "nobody", "p3"])
    assert (2, ("nobody",)) == (done.n_deleted, done.unknown)
    snapshot = open_snapshot(data)
    assert 58 == len(snapshot)
    with pytest.raises(PaperNotFoundError):
        snapshot.position("p3")
    assert [None, None] == snapshot.column("title").to_pylist()[3:5]
    assert {"p3", "p4"}.isdisjoint(*found_by(snapshot, "p5"))
    engine = SearchEngine(snapshot, hashing_annotator, n_candidates=200)
    assert all(
        match.position not in {3, 4}
        for match in engine.names.titles.like(many_papers(4)[3]["title"], limit=9)
    )


def test_a_paper_that_others_add_while_it_is_deleted_stays(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paper added again while its deletion is being published is served."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        versions, deleted = catalog.current_hashes(["p5"]), catalog.delete

        def delete_and_add(paper_ids: Iterable[str]) -> Change:
            change = deleted(paper_ids)
            publish_into(data, hashing)
            catalog.restore(versions, at=1)
            publish_into(data, hashing)
            return change

        monkeypatch.setattr(catalog, "delete", delete_and_add)
        delete_papers(data, ["p5", "p6"], catalog, keep=KEEP)
        monkeypatch.undo()
        snapshot = open_snapshot(data)
        assert (59, None) == (len(snapshot), snapshot.find("p6"))
        assert "p5" == snapshot.paper(snapshot.position("p5")).id
        assert publish_into(data, hashing).change == catalog.last_change() == snapshot.manifest.change


def test_a_deletion_beside_a_merge_takes_the_right_papers(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion removes the right papers although a merge changed their positions meanwhile."""
    delete(data, ["p3"])
    with Catalog.open(data / CATALOG_FILE) as catalog:
        deleted = catalog.delete

        def delete_and_merge(paper_ids: Iterable[str]) -> Change:
            change = deleted(paper_ids)
            compact(data, open_snapshot(data), device="cpu", keep=KEEP)
            return change

        monkeypatch.setattr(catalog, "delete", delete_and_merge)
        delete_papers(data, ["p5"], catalog, keep=KEEP)
    snapshot = open_snapshot(data)
    assert {f"p{i}" for i in range(60)} - {"p3", "p5"} == set(snapshot.values("id", snapshot.positions))


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (BuildLockedError("somebody builds"), BuildLockedError),
        (OSError(ENOSPC, "No space left on device"), StorageError),
    ],
)
def test_a_deletion_that_cannot_be_published_says_that_it_stands(
    data: Path,
    hashing: Encoder,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    raised: type[StorageError],
) -> None:
    """A deletion that cannot be published says that it is in the catalog; the next publication shows it."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("indexer.collection.growth.publishing", fail)
    with pytest.raises(raised, match=r"(somebody builds|the disk is full.*)\nThe deletion is in the catalog"):
        delete(data, ["p5"])
    with pytest.raises(raised, match=r"(somebody builds|the disk is full.*)$"):
        delete(data, ["nobody"])
    monkeypatch.undo()
    assert publish_into(data, hashing).manifest.n_papers == 59
    assert open_snapshot(data).find("p5") is None


def test_a_paper_that_others_publish_beside_a_build_is_not_lost(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer version published by another process during a build is kept."""
    publish = Catalog.publish

    def publish_and_change(self: Catalog, load: str, up_to: int, **given: bool) -> Change:
        monkeypatch.undo()
        change = publish(self, load, up_to, **given)
        changed = replace(paper_in(self, "p65"), title="Theirs")
        self.add([changed])
        publish_into(data, hashing)
        return change

    monkeypatch.setattr(Catalog, "publish", publish_and_change)
    add(data, many_papers(70))
    snapshot = open_snapshot(data)
    assert 70 == len(snapshot)
    assert "Theirs" == snapshot.paper(snapshot.position("p65")).title
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert snapshot.manifest.change == catalog.last_change()


def test_everything_may_be_deleted_and_come_back(data: Path) -> None:
    """A collection without papers can be searched, and grows again."""
    delete(data, [f"p{i}" for i in range(60)])
    snapshot = open_snapshot(data)
    assert (0, 0) == (len(snapshot), len(snapshot.segments))
    SearchEngine(snapshot, hashing_annotator, n_candidates=200).warm_up()
    assert add(data, many_papers(1)) == 0  # the vectors are still in an older generation
    SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=200).warm_up()
    assert add(data, many_papers(5)) == 0
    assert 5 == len(open_snapshot(data))


def test_a_grown_collection_answers_as_one_built_anew(data: Path, tmp_path: Path, hashing: Encoder) -> None:
    """After changes, in several segments or compacted, a collection answers as if built at once."""
    papers = many_papers(100)
    replaced = {**papers[11], "abstract": papers[12]["abstract"]}
    add(data, papers[60:90])
    add(data, [*papers[90:], replaced])
    delete(data, ["p0", "p61", "p99"])
    final = [replaced if p["id"] == "p11" else p for p in papers if p["id"] not in {"p0", "p61", "p99"}]
    build_quietly(write_corpus(tmp_path / "final.jsonl", final), tmp_path / "anew", hashing)
    anew, grown = open_snapshot(tmp_path / "anew"), open_snapshot(data)
    assert len(grown.segments) > 1
    query_ids = ["p1", "p11", "p12", "p60", "p75", "p95"]
    assert_same_answers(grown, anew, query_ids)
    compact(data, grown, device="cpu", keep=KEEP)
    compacted = open_snapshot(data)
    assert (1, 97) == (len(compacted.segments), len(compacted.live))
    assert_same_answers(compacted, anew, query_ids)


def test_segments_stay_few_however_often_papers_come(data: Path, hashing: Encoder) -> None:
    """Twenty papers added one by one and merged as a service does end in few segments, with none lost."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        for i in range(20):
            text = f"Paper {i} counts whales."
            catalog.add([Paper(f"new{i}", f"Whales {i}", text, (Sentence(text, 0, len(text)),))])
            publish_pending(data, hashing_annotator(), catalog, on_progress=quiet, keep=KEEP)
            merge(data, keep=KEEP)
    snapshot = open_snapshot(data)
    assert 80 == len(snapshot)
    assert len(snapshot.segments) <= 1 + 7 + 20 // 8
    assert all(snapshot.find(f"new{i}") is not None for i in range(20))


def test_changes_of_the_catalog_are_taken_up(data: Path, hashing: Encoder) -> None:
    """Papers added to or deleted from the catalog are served so; publishing again changes nothing."""
    text = "Whales sing."
    new = Paper("whales", "Whales", text, (Sentence(text, 0, len(text)),))
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([new])
        catalog.delete(["p1"])
    assert "000002" == publish_into(data, hashing).manifest.generation
    snapshot = open_snapshot(data)
    assert (60, None, 2) == (len(snapshot), snapshot.find("p1"), publish_into(data, hashing).change - 1)
    assert "Whales" == snapshot.paper(snapshot.position("whales")).title
    assert "000002" == publish_into(data, hashing).manifest.generation


class Interrupted(Counting):
    """An encoder that calls ``happen`` before its first ``times`` calls."""

    def __init__(self, encoder: Encoder, happen: Callable[[int], object], *, times: int = 1) -> None:
        super().__init__(encoder)
        self._happen = happen
        self._times = times
        self.n_times = 0

    def encode(self, papers, *, layers=()):  # type: ignore[no-untyped-def]  # as the class it stands for
        """Call ``happen`` if it is due, then encode."""
        self.n_times += 1
        if self.n_times <= self._times:
            self._happen(self.n_times)
        return super().encode(papers, layers=layers)


def paper_of(paper_id: str, text: str) -> Paper:
    """Return a paper of one sentence."""
    return Paper(paper_id, text, text, (Sentence(text, 0, len(text)),))


def replace_all(data: Path) -> None:
    """Replace all papers in the catalog, as `akin index --replace` does before it publishes."""
    with Catalog.open(data / CATALOG_FILE) as other:
        other.stage("load", [paper_of("new", "New.")])
        other.publish("load", 1 << 30, replace=True)


def test_papers_added_while_all_is_replaced_hide_no_others(data: Path, hashing: Encoder) -> None:
    """An addition published during a replacement hides none of the papers to be replaced."""
    before = len(open_snapshot(data))
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([paper_of("whales", "Sing.")])
    publish_into(data, Interrupted(hashing, lambda _: replace_all(data)))
    assert before == len(open_snapshot(data))


def test_a_deletion_while_all_is_replaced_hides_no_others(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion during a replacement hides only its paper; the others stay served until the end."""
    before, delete = len(open_snapshot(data)), Catalog.delete

    def deleting(catalog: Catalog, ids: Iterable[str]) -> Change:
        change = delete(catalog, ids)
        replace_all(data)
        return change

    monkeypatch.setattr(Catalog, "delete", deleting)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, ["p3"], catalog, keep=KEEP)
    assert before - 1 == len(open_snapshot(data))


def test_a_paper_that_never_rests_keeps_no_other_waiting(data: Path, hashing: Encoder) -> None:
    """A paper that changes while it is encoded is served in its older version, and delays no other paper."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([paper_of("hot", "Hot."), paper_of("cold", "Cold.")])
        restless = Interrupted(
            hashing, lambda number: catalog.add([paper_of("hot", f"Hot {number}.")]), times=3
        )
        done = publish_into(data, restless)
        snapshot = open_snapshot(data)
        assert (1, catalog.last_change() - 1) == (restless.n_times, done.change)
        assert ["Cold.", "Hot."] == [snapshot.paper(snapshot.position(it)).title for it in ("cold", "hot")]
        assert done.change == snapshot.manifest.change
        publish_into(data, hashing)
    snapshot = open_snapshot(data)
    assert "Hot 1." == snapshot.paper(snapshot.position("hot")).title
    assert not (data / "building" / "changes").exists()


def test_a_paper_deleted_while_it_is_encoded_is_never_served(data: Path, hashing: Encoder) -> None:
    """A paper deleted while it is encoded is not served; the papers encoded with it are."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([paper_of("gone", "Gone."), paper_of("p3", "Gone too."), paper_of("new", "New.")])
        counting = Interrupted(hashing, lambda number: catalog.delete(["gone", "p3"]))
        publish_into(data, counting)
        snapshot = open_snapshot(data)
        assert (1, 60) == (counting.n_times, len(snapshot))
        assert (None, None) == (snapshot.find("gone"), snapshot.find("p3"))
        assert "New." == snapshot.paper(snapshot.position("new")).title
        assert {"gone", "p3"}.isdisjoint(*found_by(snapshot, "new"))
        catalog.add([paper_of("gone", "Gone."), paper_of("w", "W.")])
        publish_into(data, Interrupted(hashing, lambda number: catalog.delete(["gone", "w"])))
    assert snapshot.generation == open_snapshot(data).generation


def test_what_others_published_meanwhile_is_not_taken_back(data: Path, hashing: Encoder) -> None:
    """An older version that was being encoded does not replace a newer one published meanwhile."""
    newer = {"id": "p3", "title": "Newer", "abstract": ["It is newer."]}
    with ThreadPoolExecutor(1) as threads:  # the other process waits at its end until it may publish

        def index(number: int) -> None:
            threads.submit(add, data, [newer])
            soon(lambda: current_generation(data) == "000002")

        with Catalog.open(data / CATALOG_FILE) as catalog:
            catalog.add([paper_of("p3", "Older."), paper_of("w", "Whales.")])
        publish_into(data, Interrupted(hashing, index))
    since = [open_snapshot(data, generation) for generation in DataFolder(data).generations()[1:]]
    assert {"Newer"} == {snapshot.paper(snapshot.position("p3")).title for snapshot in since}


def test_what_was_encoded_in_vain_is_removed(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If publishing fails again and again, only the papers encoded last are kept in the work folder."""

    def full(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    with Catalog.open(data / CATALOG_FILE) as catalog, monkeypatch.context() as broken:
        broken.setattr("indexer.collection.growth.publish_added", full)
        for number in range(3):
            catalog.add([paper_of("w", f"Whales {number}.")])
            with pytest.raises(StorageError):
                publish_into(data, hashing)
    assert 1 == len([*(data / "building" / "changes").glob("part-*")])


def test_what_others_added_meanwhile_is_not_lost_by_a_build(data: Path, hashing: Encoder) -> None:
    """Papers added or deleted while a corpus is encoded are served so after the build."""

    def happen(number: int) -> None:
        with Catalog.open(data / CATALOG_FILE) as other:
            other.add([paper_of("whales", "Whales sing.")])
        delete(data, ["p5"])

    busy = Interrupted(hashing, happen)
    build_quietly(write_corpus(data.parent / "c.jsonl", many_papers(70)), data, busy)
    snapshot = open_snapshot(data)
    assert (70, None) == (len(snapshot), snapshot.find("p5"))
    assert snapshot.find("whales") is not None


def test_rollback_takes_the_catalog_back(data: Path, hashing: Encoder) -> None:
    """After a rollback, the catalog has the papers of the generation, so undone changes do not return."""
    add(data, [*many_papers(70)[60:], {**many_papers(1)[0], "title": "Another title"}])
    delete(data, ["p7"])
    with Catalog.open(data / CATALOG_FILE) as catalog:
        rollback(data, "000001", catalog=catalog)
        assert 60 == catalog.count()
    assert "000001" == publish_into(data, hashing).manifest.generation
    snapshot = open_snapshot(data)
    assert (60, many_papers(1)[0]["title"]) == (len(snapshot), snapshot.paper(snapshot.position("p0")).title)
    assert snapshot.find("p7") is not None


@pytest.mark.parametrize("before", ["rollback", "poison"])
@pytest.mark.parametrize("then", ["add", "delete"])
def test_a_generation_states_the_last_change_that_it_shows(
    data: Path, hashing: Encoder, before: str, then: str
) -> None:
    """Changes that make no generation, of a rollback or of quarantined papers, are shown by the next one."""
    add(data, many_papers(70)[60:])
    if before == "rollback":
        run("snapshot", "rollback", data)
        assert "nothing was changed" in (said := flat(run("snapshot", "rollback", "--to", "000001", data)))
        assert "cannot be searched yet" not in said
    else:
        add(data, [{"id": "bad", "title": "x", "abstract": "POISON sings."}], Refusing(hashing))
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert open_snapshot(data).manifest.change < catalog.last_change()
        assert {} == differing_papers(catalog, open_snapshot(data))
        if then == "add":
            add(data, many_papers(75)[70:])
        else:
            delete(data, ["p5"])
        assert catalog.last_change() == open_snapshot(data).manifest.change


def test_a_generation_states_no_change_that_it_lacks(data: Path) -> None:
    """While another paper is pending, added or deleted papers are published and the change is not stated."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([Paper("unseen", "A title", "Text.", (Sentence("Text.", 0, 5),))])
        shown = open_snapshot(data).manifest.change
        delete(data, ["p5"])
        assert (shown, ["unseen"]) == (
            open_snapshot(data).manifest.change,
            [*differing_papers(catalog, open_snapshot(data))],
        )


def change_beside_restores(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[], object], *, times: int, before: bool
) -> None:
    """Call ``change`` just before or just after each of the first ``times`` restores of a catalog."""
    restore, left = Catalog.restore, [change] * times

    def restoring(catalog: Catalog, versions: Mapping[str, str | None], *, at: int) -> Change:
        happen = left.pop() if left else lambda: None
        if before:
            happen()
        done = restore(catalog, versions, at=at)
        if not before:
            happen()
        return done

    monkeypatch.setattr(Catalog, "restore", restoring)


@pytest.mark.parametrize("before", [True, False])
def test_a_rollback_undoes_what_others_publish_meanwhile(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch, *, before: bool
) -> None:
    """Papers that others add and delete during a rollback are undone by it too, and counted."""
    add(data, many_papers(61))

    def others() -> None:
        with Catalog.open(data / CATALOG_FILE) as other:
            other.add([paper_of("whales", "Whales sing.")])
        delete(data, ["p3"])
        publish_into(data, hashing)

    change_beside_restores(monkeypatch, others, times=1, before=before)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        done = rollback(data, "000001", catalog=catalog)
        assert ("000001", 60, {}) == (
            current_generation(data),
            catalog.count(),
            differing_papers(catalog, open_snapshot(data)),
        )
        assert catalog.current_hashes(["p3"])
    assert (2, 1) == (done.n_removed, done.n_restored)


def test_a_rollback_ends_however_often_others_add(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollback ends even if others add a paper after each of its tries; the last of them stays pending."""
    add(data, many_papers(61))
    added: list[str] = []

    def others() -> None:
        added.append(f"w/{len(added)}")
        with Catalog.open(data / CATALOG_FILE) as other:
            other.add([paper_of(added[-1], "Whales sing.")])

    change_beside_restores(monkeypatch, others, times=100, before=False)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        done = rollback(data, catalog=catalog)
        assert len(added) < 100
        assert ("000001", len(added)) == (current_generation(data), done.n_removed)
        assert {added[-1]} == differing_papers(catalog, open_snapshot(data)).keys()


def test_what_one_generation_shows_another_may_lack(data: Path, hashing: Encoder) -> None:
    """Changes taken as shown by one generation are published again if an older one is served instead."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([paper_of("whales", "Whales sing.")])
        shown = publish_into(data, hashing)
        base = open_snapshot(data)
        write_pointer(data, "000001")
        annotator = annotated(hashing)
        publish_pending(data, annotator, catalog, on_progress=quiet, keep=KEEP, base=base, since=shown.change)
    assert open_snapshot(data).find("whales") is not None


def test_what_was_undone_stays_undone(data: Path) -> None:
    """A rollback goes to the base of the served generation, never to one that was undone."""
    for i in range(3):
        add(data, many_papers(61 + i))
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert "000003" == rollback(data, catalog=catalog).manifest.generation
        add(data, [*many_papers(70)[69:]])
        # The undone generation is removed first.
        assert ["000002", "000003", "000005"] == DataFolder(data).generations()
        assert "000003" == open_snapshot(data).manifest.base
        assert "000003" == rollback(data, catalog=catalog).manifest.generation
        assert "000002" == rollback(data, catalog=catalog).manifest.generation
        assert "000005" == rollback(data, "000005", catalog=catalog).manifest.generation
        assert "000003" == rollback(data, catalog=catalog).manifest.generation
    assert 62 == len(open_snapshot(data))


def test_an_older_collection_rolls_back_as_before(data: Path) -> None:
    """If manifests do not name their base, a rollback goes to the next older generation."""
    add(data, many_papers(61))
    add(data, many_papers(62))
    written_before(data, "base", "catalog")
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert "000002" == rollback(data, catalog=catalog).manifest.generation
    add(data, many_papers(63))
    assert ["000001", "000002", "000004"] == DataFolder(data).generations()


def test_only_papers_that_were_searchable_are_replaced(data: Path, hashing: Encoder) -> None:
    """The report of `akin index` counts a paper as replaced once, and not if it was deleted before."""

    def indexed(title: str) -> int:
        corpus = write_corpus(data.parent / "again.jsonl", [{**many_papers(1)[0], "title": title}])
        return build_quietly(corpus, data, hashing).replaced

    assert [1, 1] == [indexed(title) for title in ("Second version", "Third version")]
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, ["p0"], catalog, keep=KEEP)
    assert (0, 60) == (indexed("Fourth version"), len(open_snapshot(data)))


def test_old_generations_go_unless_somebody_reads_them(data: Path) -> None:
    """The newest generations and those in use are kept; segments that none of them names are removed."""
    read = open_snapshot(data)
    for i in range(6):
        add(data, many_papers(62 + i))
    assert ["000001", "000005", "000006", "000007"] == DataFolder(data).generations()
    assert "p5" == read.paper(5).id
    del read
    add(data, many_papers(70))
    assert ["000006", "000007", "000008"] == DataFolder(data).generations()
    snapshots = [open_snapshot(data, generation) for generation in DataFolder(data).generations()]
    named = {segment.entry.name for snapshot in snapshots for segment in snapshot.segments}
    assert named == {path.name for path in (data / "segments").iterdir()}


def test_segments_in_common_are_opened_once(data: Path) -> None:
    """A generation opened with ``beside`` shares the unchanged segments of the older one."""
    old = open_snapshot(data)
    add(data, many_papers(70))
    new = open_snapshot(data, beside=old)
    assert new.segments[0] is old.segments[0]


class OfAnotherKind(Counting):
    """An encoder with the spec of a different one."""

    @property
    def spec(self) -> EncoderSpec:
        """The spec with a different fingerprint."""
        return replace(super().spec, fingerprint="0" * 64)


def test_papers_of_other_models_are_refused(data: Path, hashing: Encoder) -> None:
    """Another encoder or dtype is refused before anything is encoded, and the error says what to do."""
    corpus, other = write_corpus(data.parent / "c.jsonl", many_papers(70)), OfAnotherKind(hashing)
    with pytest.raises(EncoderMismatchError, match="index the corpus"):
        build_quietly(corpus, data, other)
    with pytest.raises(EncoderMismatchError, match="--replace"):
        build_quietly(corpus, data, hashing, dtype="float32")
    assert (0, ["000001"]) == (other.n_encoded, DataFolder(data).generations())


def test_a_corpus_may_become_the_whole_collection(data: Path) -> None:
    """With ``replace``, papers that are not in the corpus leave the collection and the catalog."""
    build_quietly(
        write_corpus(data.parent / "c.jsonl", many_papers(70)[65:]),
        data,
        load_encoder("hashing"),
        replace=True,
    )
    assert ["p65", "p66", "p67", "p68", "p69"] == [open_snapshot(data).paper(i).id for i in range(5)]
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert 5 == catalog.count()
    with pytest.raises(SnapshotMissingError), Catalog.open(data / CATALOG_FILE) as catalog:
        rollback(data, "000009", catalog=catalog)


def test_a_joined_index_is_that_of_all_rows(data: Path) -> None:
    """Searching several segments finds what one index over all rows finds, filtered or not."""
    add(data, many_papers(100))
    snapshot = open_snapshot(data)
    rows, _ = snapshot.gather(np.arange(len(snapshot.live)))
    whole = build_index(rows, "exact")
    queries = snapshot.vectors(17)
    allowed = np.random.default_rng(0).random(snapshot.n_rows) < 0.3
    allowed[: int(snapshot.offsets[60])] = False
    for mask in (None, allowed):
        for k in (1, 10, snapshot.n_rows if mask is None else int(mask.sum())):
            one, other = (
                whole.search(queries, k, allowed=mask),
                snapshot.index.search(queries, k, allowed=mask),
            )
            np.testing.assert_array_equal(one.rows, other.rows)
            np.testing.assert_allclose(one.scores, other.scores, atol=1e-6)


def test_a_collection_may_be_copied(data: Path, tmp_path: Path) -> None:
    """A copied data folder is an independent collection."""
    add(data, many_papers(70))
    shutil.copytree(data, tmp_path / "copy")
    add(tmp_path / "copy", many_papers(80))
    assert (70, 80) == (len(open_snapshot(data)), len(open_snapshot(tmp_path / "copy")))


def test_a_rollback_tells_what_it_takes_back(data: Path) -> None:
    """A rollback counts removed and restored papers, and those that were never searchable."""
    add(data, [*many_papers(62)[60:], {**many_papers(1)[0], "title": "Another title"}])
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([Paper("unseen", "A title", "Text.", (Sentence("Text.", 0, 5),))])
        same = rollback(data, "000002", catalog=catalog)
        assert (False, "000002", 0, 0, 1) == (
            same.is_new,
            same.manifest.generation,
            same.n_removed,
            same.n_unseen,
            same.n_pending,
        )
        assert catalog.current_hashes(["unseen"])
        shown = flat(run("snapshot", "rollback", "--to", "000002", data))
        assert "nothing was changed. 1 paper added or deleted since cannot be searched yet." in shown
        shown = flat(run("snapshot", "rollback", data))
        assert "Removed 3 papers and restored 1 paper in the catalog; 1 of them had never been" in shown
        assert not catalog.current_hashes(["unseen"])


def test_a_rollback_that_was_killed_is_repeated_with_the_generation_it_named(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed rollback has named its generation; repeated with it, it undoes nothing else."""
    add(data, many_papers(61))
    add(data, many_papers(62))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("indexer.collection.rollback.write_pointer", killed)
        printed = flat(run("snapshot", "rollback", data, status=130))
    assert "if this is interrupted, repeat it with --to 000002." in printed
    assert "000004" == publish_into(data, hashing).manifest.generation  # as a running service does
    assert "Generation 000002 is served" in run("snapshot", "rollback", "--to", "000002", data)
    assert 61 == len(open_snapshot(data))


def test_what_was_never_searchable_is_not_counted_where_nobody_knows(data: Path) -> None:
    """With a damaged served manifest, a rollback does not count papers that were never searchable."""
    add(data, many_papers(62)[60:])
    add(data, many_papers(63)[62:])
    DataFolder(data).manifest("000003").write_text("{")
    with Catalog.open(data / CATALOG_FILE) as catalog:
        done = rollback(data, "000002", catalog=catalog)
    assert (True, 1, None) == (done.is_new, done.n_removed, done.n_unseen)


def test_a_pointer_that_is_gone(data: Path) -> None:
    """If CURRENT is missing, the error names the rollback that serves a generation again."""
    (data / "CURRENT").unlink()
    with pytest.raises(SnapshotMissingError, match=r"CURRENT is missing.*snapshot rollback --to 000001"):
        current_generation(data)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        rollback(data, "000001", catalog=catalog)
    assert "000001" == current_generation(data)


def test_a_lost_pointer_costs_no_acknowledged_change(data: Path, hashing: Encoder) -> None:
    """A rollback after CURRENT was lost leaves the catalog as it is, and what was pending is published."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([paper_of("whales", "Whales sing.")])
        catalog.delete(["p1"])
        (data / "CURRENT").unlink()
        shown = flat(run("snapshot", "rollback", "--to", "000001", data))
        assert "so the catalog was left as it is. 2 papers added or deleted since cannot be" in shown
        assert ["whales"] == [*catalog.current_hashes(["whales", "p1"])]
    publish_into(data, hashing)
    assert (True, None) == (open_snapshot(data).find("whales") is not None, open_snapshot(data).find("p1"))


def test_a_generation_that_is_superseded_meanwhile_is_not_lost(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the served generation is superseded and removed during a rollback, the catalog goes back too."""
    add(data, many_papers(61))
    real, looks = rollback_module.served_generation, iter([None])
    monkeypatch.setattr(rollback_module, "served_generation", lambda folder: next(looks, real(folder)))
    with Catalog.open(data / CATALOG_FILE) as catalog:
        done = rollback(data, "000001", catalog=catalog)
        assert (1, 60) == (done.n_removed, catalog.count())


class Large(Segment):
    """A segment that claims a million papers more than it has, without sentences."""

    def __init__(self, segment: Segment) -> None:
        self.entry = replace(segment.entry, n_papers=1_000_000)
        self.vectors = segment.vectors


def test_a_publication_looks_only_at_deleted_papers(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To delete some of three million papers takes no memory for the others."""
    base = open_snapshot(data)
    deleted = [np.array([5, 7]), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)]
    large = Snapshot(base.manifest, [Large(base.segments[0])] * 3, deleted)
    shown: list[list[int]] = []
    monkeypatch.setattr(
        "indexer.collection.growth.publish",
        lambda _, like, segments, **__: shown.extend(gone.tolist() for _, gone in segments) or like,
    )
    tracemalloc.start()
    gone = np.array([2_000_009, 3, 7, 2_000_000])
    publish_added(data, large, (), gone=gone, like=base.manifest, keep=KEEP)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [[3, 5, 7], [], [0, 9]] == shown
    assert peak < 1_000_000  # bytes


@pytest.mark.parametrize("when", ["before", "while waiting"])
def test_what_others_delete_while_a_paper_is_added_is_hidden(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """What others deleted while a segment was written, or the lock was waited for, is hidden; others stay."""
    publish, lock = changes.publish_changes, growth.publishing
    with Catalog.open(data / CATALOG_FILE) as catalog:

        def deleted_first(*given: object, **named: object) -> object:
            catalog.delete(["p3", "p4", "new"])
            return publish(*given, **named)  # type: ignore[arg-type]  # passed on

        def deleted_meanwhile(*given: Path) -> object:
            catalog.delete(["p3", "p4", "new"])
            return lock(*given)  # type: ignore[arg-type]  # passed on

        with monkeypatch.context() as patched:
            if when == "before":
                patched.setattr(changes, "publish_changes", deleted_first)
            else:
                patched.setattr(growth, "publishing", deleted_meanwhile)
            catalog.add([replace(paper_in(catalog, "p1"), id=key) for key in ("new", "other", "p3")])
            publish_pending(data, hashing_annotator(), catalog, on_progress=quiet, keep=KEEP)
    shown = open_snapshot(data)
    assert [None, None] == [shown.find(key) for key in ("p3", "new")]
    assert None not in [shown.find(key) for key in ("p4", "other")]
