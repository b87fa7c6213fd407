"""Acknowledged changes that are not served yet, when a newer command runs."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indexer.catalog.catalog import Catalog, Change
from indexer.collection import build as build_module
from indexer.collection import changes
from indexer.collection.changes import differing_papers, publish_pending
from indexer.collection.delete import delete_papers
from indexer.collection.growth import Bounds, publish_added
from indexer.content_hash import content_hash
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.files.data_folder import CATALOG_FILE, KEEP, DataFolder, Work
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.errors import BuildLockedError, StorageError
from models.types import Paper, Sentence
from tests.support.annotators import annotated
from tests.support.builds import Counting, Refusing, build_quietly, many_papers, quiet, write_corpus

PAPERS = many_papers(30)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Return a corpus of 30 papers."""
    return write_corpus(tmp_path / "c.jsonl", PAPERS)


@pytest.fixture
def data(tmp_path: Path, corpus: Path, hashing: Encoder) -> Path:
    """Return a collection of the papers of the corpus."""
    build_quietly(corpus, tmp_path / "data", hashing)
    return tmp_path / "data"


def titles(data: Path) -> dict[str, str]:
    """Return the titles of the served papers by id."""
    snapshot = open_snapshot(data)
    return {(paper := snapshot.paper(int(position))).id: paper.title for position in snapshot.positions}


def test_a_corpus_is_newer_than_what_was_pending(
    data: Path, corpus: Path, tmp_path: Path, hashing: Encoder
) -> None:
    """Indexing a corpus restores papers with pending deletions or changes, as the corpus has them."""
    before = titles(data)
    changed = [{**PAPERS[3], "title": "Changed"}, {**PAPERS[4], "title": "Kept"}]
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.delete(["p0"])
        catalog.add(read_corpus(write_corpus(tmp_path / "changed.jsonl", changed), report=CorpusReport()))
    write_corpus(corpus, [paper for paper in PAPERS if paper["id"] != "p4"])
    report = build_quietly(corpus, data, hashing)
    assert (2, 27) == (report.staging.n_papers, report.staging.unchanged)
    assert {**before, "p4": "Kept"} == titles(data)


def test_a_build_that_was_killed_before_it_published_encodes_nothing_again(
    data: Path, corpus: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that failed to publish reuses all its encoded papers when run again."""

    def full(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    write_corpus(
        corpus, [{**paper, "year": 1999} if paper["id"] == "p5" else paper for paper in many_papers(40)]
    )
    with monkeypatch.context() as broken:
        broken.setattr("indexer.collection.growth.publish_added", full)
        with pytest.raises(StorageError):
            build_quietly(corpus, data, hashing)
    again = Counting(hashing)
    report = build_quietly(corpus, data, again)
    assert (0, 11, 1) == (again.n_encoded, report.reused_papers, report.replaced)
    assert 40 == len(titles(data))


def test_a_first_build_that_was_killed_as_it_published_is_whole_the_second_time(
    tmp_path: Path, corpus: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first build killed while publishing serves all papers of the catalog when run again."""
    with monkeypatch.context() as broken:
        broken.setattr("indexer.collection.growth.publish_added", stop)
        with pytest.raises(KeyboardInterrupt):
            build_quietly(corpus, tmp_path / "new", hashing)
    report = build_quietly(corpus, tmp_path / "new", hashing)
    with Catalog.open(tmp_path / "new" / CATALOG_FILE) as catalog:
        assert (30, catalog.last_change()) == (report.manifest.n_papers, report.manifest.change)


def test_a_first_build_does_not_replace_what_others_began(
    data: Path, corpus: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first build fails if another process began the collection meanwhile; run again, it adds to it."""
    current, begun = DataFolder(data).current, DataFolder(data).begun
    pointer = current.read_bytes()
    current.unlink()
    begun.parent.mkdir(parents=True, exist_ok=True)
    begun.touch()  # without it, CURRENT is lost
    publish = Catalog.publish

    def then_others(catalog: Catalog, *given: object, **named: object) -> Change:
        change = publish(catalog, *given, **named)  # type: ignore[arg-type]  # passed on
        current.write_bytes(pointer)
        return change

    write_corpus(corpus, many_papers(40)[30:])
    with monkeypatch.context() as patched:
        patched.setattr(Catalog, "publish", then_others)
        with pytest.raises(BuildLockedError, match="begun the collection meanwhile"):
            build_quietly(corpus, data, hashing)
    assert 30 == len(titles(data))
    assert 40 == build_quietly(corpus, data, hashing).manifest.n_papers


def test_others_write_while_a_corpus_is_added(
    data: Path, corpus: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Papers added and deleted between two portions of a corpus stay added and deleted."""

    def meanwhile(*given: object, **named: object) -> Manifest:
        with Catalog.open(data / CATALOG_FILE) as other:
            other.add([Paper("whales", "Whales", "Sing.", (Sentence("Sing.", 0, 5),))])
            other.delete(["p31"])
        return publish_added(*given, **named)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr("indexer.collection.growth.publish_added", meanwhile)
    write_corpus(corpus, many_papers(60))
    report = build_quietly(corpus, data, hashing, bounds=Bounds(publish_every=10))
    assert (60, True, False) == (len(titles(data)), "whales" in titles(data), "p31" in titles(data))
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert {} == differing_papers(catalog, open_snapshot(data))
        assert catalog.last_change() == report.manifest.change


@pytest.mark.parametrize("replace", [False, True])
def test_what_others_change_before_a_corpus_is_served(
    data: Path, corpus: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch, *, replace: bool
) -> None:
    """Papers deleted before a corpus is published are in no generation, and newer versions win."""
    publish, before = Catalog.publish, DataFolder(data).generations()

    def then_others(catalog: Catalog, *given: object, **named: object) -> Change:
        change = publish(catalog, *given, **named)  # type: ignore[arg-type]  # passed on
        with Catalog.open(data / CATALOG_FILE) as other:
            other.add([Paper("p39", "Whales", "Sing.", (Sentence("Sing.", 0, 5),))])
            delete_papers(data, ["p38", "p2"], other, keep=KEEP)
        return change

    monkeypatch.setattr(Catalog, "publish", then_others)
    write_corpus(corpus, many_papers(40))
    build_quietly(corpus, data, hashing, replace=replace)
    for generation in DataFolder(data).generations():
        snapshot = open_snapshot(data, generation)
        assert snapshot.find("p38") is None
        if generation not in before and snapshot.find("p35") is not None:
            assert snapshot.find("p2") is None
    assert (38, "Whales") == (len(titles(data)), titles(data)["p39"])


def test_what_others_publish_while_all_is_replaced_stays(
    data: Path, corpus: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paper published during a replacement is still served after it."""
    publish = Catalog.publish

    def then_others(catalog: Catalog, *given: object, **named: object) -> Change:
        change = publish(catalog, *given, **named)  # type: ignore[arg-type]  # passed on
        with Catalog.open(data / CATALOG_FILE) as other:
            other.add([Paper(key, "Whales", "Sing.", (Sentence("Sing.", 0, 5),)) for key in ("w", "p3")])
            publish_pending(data, annotated(hashing), other, on_progress=quiet, keep=KEEP)
        return change

    shown: list[dict[str, str]] = []

    def growing(*given: object, **named: object) -> Manifest:
        manifest = publish_added(*given, **named)  # type: ignore[arg-type]  # passed on
        shown.append(titles(data))
        return manifest

    monkeypatch.setattr(Catalog, "publish", then_others)
    monkeypatch.setattr("indexer.collection.growth.publish_added", growing)
    write_corpus(corpus, many_papers(10))
    build_quietly(corpus, data, hashing, replace=True)
    assert 2 == len(shown)  # the paper, then the corpus
    for each in shown:
        assert ("Whales", "Whales") == (each["w"], each["p3"])
    assert (11, shown[1]) == (len(shown[1]), titles(data))


def test_a_build_waits_while_a_service_tidies(data: Path, corpus: Path, hashing: Encoder) -> None:
    """A build waits for a service that holds its lock for a moment to tidy up."""
    folder, held, over = DataFolder(data), threading.Event(), threading.Event()

    def tidying() -> None:
        with folder.working(Work.CORPUS):
            held.set()
            over.wait(0.3)

    tidier = threading.Thread(target=tidying)
    tidier.start()
    held.wait()
    write_corpus(corpus, many_papers(31))
    assert 31 == build_quietly(corpus, data, hashing).manifest.n_papers
    tidier.join()


def test_nothing_to_tidy_locks_no_build_out(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no build has left files, publishing changes does not take the lock of builds."""
    working, taken = DataFolder.working, []

    def noting(folder: DataFolder, work: Work, **named: float) -> AbstractContextManager[None]:
        taken.append(work)
        return working(folder, work, **named)

    monkeypatch.setattr(DataFolder, "working", noting)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        publish_pending(data, annotated(hashing), catalog, on_progress=quiet, keep=KEEP)
    assert [Work.CHANGES] == taken


def stop(*_: object, **__: object) -> None:
    """Stop a build."""
    raise KeyboardInterrupt


def stopped_after(monkeypatch: pytest.MonkeyPatch, n: int) -> list[int]:
    """Stop builds after ``n`` publications; return a list of the papers served after each."""
    served: list[int] = []

    def stopping(*given: object, **named: object) -> Manifest:
        if len(served) == n:
            raise KeyboardInterrupt
        manifest = publish_added(*given, **named)  # type: ignore[arg-type]  # passed on
        served.append(manifest.n_papers)
        return manifest

    monkeypatch.setattr("indexer.collection.growth.publish_added", stopping)
    return served


def test_portions_are_joined_by_the_next_run_where_one_was_killed(
    data: Path, corpus: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build killed before it merges its portions merges them when run again, without encoding."""
    write_corpus(corpus, many_papers(75))
    portions = Bounds(publish_every=20, part=10)
    with monkeypatch.context() as broken:
        broken.setattr("indexer.collection.build.compact", stop)
        with pytest.raises(KeyboardInterrupt):
            build_quietly(corpus, data, hashing, bounds=portions)
    assert [30, 20, 20, 5] == [segment.entry.n_papers for segment in open_snapshot(data).segments]
    report = build_quietly(corpus, data, hashing, bounds=portions)
    assert (0, 75) == (report.staging.n_papers, report.staging.unchanged)
    assert [30, 45] == [segment.entry.n_papers for segment in open_snapshot(data).segments]
    assert not DataFolder(data).work(Work.CORPUS).exists()


def test_a_collection_is_searched_while_it_is_indexed(
    data: Path, corpus: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Papers are served portion by portion, and a service does not encode those of the build again."""
    write_corpus(corpus, many_papers(75))
    portions = Bounds(publish_every=20, part=10)
    with monkeypatch.context() as patched:
        served = stopped_after(patched, 2)
        with pytest.raises(KeyboardInterrupt):
            build_quietly(corpus, data, hashing, bounds=portions)
        assert [50, 70] == served
    assert {f"p{number}" for number in range(70)} == titles(data).keys()
    counting = Counting(hashing)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        # The third portion is current by then; its papers are encoded, and not encoded again.
        publish_pending(data, annotated(counting), catalog, on_progress=quiet, keep=KEEP)
        assert 75 == len(titles(data))
        assert (0, 0) == (counting.n_encoded, catalog.count_staged())
    report = build_quietly(corpus, data, counting, bounds=portions)
    assert (0, 75, 0) == (report.staging.n_papers, report.staging.unchanged, counting.n_encoded)


def test_what_waits_is_nobodys_to_encode(
    data: Path, corpus: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Papers staged by a killed build are not encoded by a service, and the next build reuses them."""
    write_corpus(corpus, many_papers(60))
    with monkeypatch.context() as patched:
        patched.setattr(Catalog, "publish", stop)
        with pytest.raises(KeyboardInterrupt):
            build_quietly(corpus, data, hashing, bounds=Bounds(part=10))
    counting = Counting(hashing)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        publish_pending(data, annotated(counting), catalog, on_progress=quiet, keep=KEEP)
        assert (0, 30, 30) == (counting.n_encoded, catalog.count_staged(), catalog.count())
    report = build_quietly(corpus, data, counting, bounds=Bounds(part=10))
    assert (0, 30, 60) == (counting.n_encoded, report.reused_papers, len(titles(data)))


def test_what_is_pending_is_published_some_at_a_time(
    data: Path, tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pending changes are published in batches; an interrupted generation keeps the older change number."""
    more = write_corpus(tmp_path / "more.jsonl", many_papers(55)[30:])
    counting = annotated(Counting(hashing))
    before = open_snapshot(data).manifest.change
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add(read_corpus(more))
        catalog.delete(["p3", "p4"])
        with monkeypatch.context() as patched:
            served = stopped_after(patched, 2)
            with pytest.raises(KeyboardInterrupt):
                publish_pending(data, counting, catalog, on_progress=quiet, keep=KEEP, at_once=10)
        assert ([36, 46], before) == (served, open_snapshot(data).manifest.change)
        assert 7 == len(differing_papers(catalog, open_snapshot(data)))
        assert 2 == len(differing_papers(catalog, open_snapshot(data), most=2))
        done = publish_pending(data, counting, catalog, on_progress=quiet, keep=KEEP, at_once=10)
        assert catalog.last_change() == done.change == done.manifest.change
    assert {f"p{number}" for number in range(55)} - {"p3", "p4"} == titles(data).keys()
    assert not (data / "building" / "changes").exists()


def test_no_pending_change_is_compared_in_every_round(
    data: Path, tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round compares the changes that earlier ones left, and papers that changed again meanwhile."""
    more = write_corpus(tmp_path / "more.jsonl", many_papers(70)[30:])
    original, newer = (
        write_corpus(tmp_path / f"{title}.jsonl", [{**PAPERS[5], "title": title}])
        for title in (PAPERS[5]["title"], "Newer")
    )
    compared: list[list[str]] = []
    changes_since, publish = Catalog.changes_since, changes.publish_changes

    def noted(catalog: Catalog, *given: Any, **named: Any) -> Iterator[tuple[str, str | None]]:
        compared.append([])
        for key, digest in changes_since(catalog, *given, **named):
            compared[-1].append(key)
            yield key, digest

    def then_changed(*given: Any, **named: Any) -> tuple[Manifest, bool]:
        with Catalog.open(data / CATALOG_FILE) as other:
            other.add(read_corpus(original))  # does nothing the second time
        return publish(*given, **named)

    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add(read_corpus(newer))
        catalog.add(read_corpus(more))
        catalog.delete(["p3"])
        monkeypatch.setattr(changes, "publish_changes", then_changed)
        monkeypatch.setattr(changes.Catalog, "changes_since", noted)
        publish_pending(data, annotated(hashing), catalog, on_progress=quiet, keep=KEEP, at_once=15)
        monkeypatch.undo()
        assert not differing_papers(catalog, open_snapshot(data))
    rounds = [each for each in compared if len(each) > 1]
    first = [f"p{number}" for number in range(30, 70)]
    assert rounds == [["p3", "p5", *first[:13]], ["p3", "p5", *first[13:27]], ["p3", *first[27:]]]
    assert PAPERS[5]["title"] == titles(data)["p5"]


@pytest.mark.parametrize("at_once", [1, 100])
def test_what_others_publish_meanwhile_is_compared(
    data: Path, corpus: Path, tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """If others publish a version that is outdated meanwhile, the current one follows; none is overlooked."""
    write_corpus(corpus, [{**PAPERS[5], "title": "Newer"}])
    back = write_corpus(tmp_path / "back.jsonl", [PAPERS[5]])
    more = write_corpus(tmp_path / "more.jsonl", many_papers(32)[30:])
    publish, of_index = changes.publish_changes, list[tuple[Manifest, bool]]()

    def publish_of_index(*given: Any, **named: Any) -> tuple[Manifest, bool]:
        """Stop an `akin index` before it publishes, until a service is about to publish what came later."""

        def publish_of_service(*own: Any, **own_named: Any) -> tuple[Manifest, bool]:
            if not of_index:
                of_index.append(publish(*given, **named))
            return publish(*own, **own_named)

        with Catalog.open(data / CATALOG_FILE) as catalog:
            catalog.add(read_corpus(back))
            catalog.add(read_corpus(more))
            monkeypatch.setattr(changes, "publish_changes", publish_of_service)
            done = publish_pending(
                data, annotated(hashing), catalog, on_progress=quiet, keep=KEEP, at_once=at_once
            )
            assert catalog.last_change() == done.change == done.manifest.change
        assert (PAPERS[5]["title"], 32) == ((found := titles(data))["p5"], len(found))
        return of_index[0]

    monkeypatch.setattr(build_module, "publish_changes", publish_of_index)
    build_quietly(corpus, data, hashing)
    assert 1 == len(of_index)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert catalog.last_change() == open_snapshot(data).manifest.change
    assert (PAPERS[5]["title"], 32) == ((found := titles(data))["p5"], len(found))


def test_the_last_of_several_rounds_states_every_change(
    data: Path, tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the last round is full, or its only paper cannot be encoded, all that is shown is stated."""
    more = write_corpus(tmp_path / "more.jsonl", many_papers(40)[30:])
    bad = [Paper("bad", "Whales", "POISON sings.", (Sentence("POISON sings.", 0, 13),))]
    for papers in (read_corpus(more), bad):
        with Catalog.open(data / CATALOG_FILE) as catalog:
            catalog.add(papers)
            done = publish_pending(
                data, annotated(Refusing(hashing)), catalog, on_progress=quiet, keep=KEEP, at_once=5
            )
            assert catalog.last_change() == done.change
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add(read_corpus(write_corpus(tmp_path / "more.jsonl", many_papers(45)[40:])))
        catalog.add([replace(bad[0], id="worse")])
        done = publish_pending(
            data, annotated(Refusing(hashing)), catalog, on_progress=quiet, keep=KEEP, at_once=5
        )
        assert (
            catalog.last_change()
            == done.change
            == done.manifest.change
            == open_snapshot(data).manifest.change
        )
    assert 45 == len(titles(data))


def test_papers_that_a_killed_process_did_not_state_are_stated(
    data: Path, tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If others published in between, and the process died before it stated its papers, the next one does."""
    publish_changes = changes.publish_changes

    def publish_late(*given: Any, **named: Any) -> Any:
        with Catalog.open(data / CATALOG_FILE) as catalog:
            delete_papers(data, ["p0"], catalog, keep=KEEP)
        publish_changes(*given, **named)
        raise KeyboardInterrupt

    more = write_corpus(tmp_path / "more.jsonl", many_papers(31)[30:])
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add(read_corpus(more))
        with monkeypatch.context() as patched:
            patched.setattr(changes, "publish_changes", publish_late)
            with pytest.raises(KeyboardInterrupt):
                publish_pending(data, annotated(hashing), catalog, on_progress=quiet, keep=KEEP)
        assert "p30" in titles(data)
        assert open_snapshot(data).manifest.change < catalog.last_change()
        for _ in range(2):
            done = publish_pending(data, annotated(hashing), catalog, on_progress=quiet, keep=KEEP)
            stated, generation = done.manifest.change, open_snapshot(data).generation
        assert (catalog.last_change(), done.manifest.generation) == (stated, generation)


def test_segments_of_a_build_are_bounded(data: Path, corpus: Path, hashing: Encoder) -> None:
    """No segment of a build exceeds the bound on vectors, and segments are half full on average."""
    write_corpus(corpus, many_papers(90))
    for number, every in enumerate((0, 5, 0)):
        folder = data.parent / f"bounded{number}"
        bounds = Bounds(publish_every=every, part=5, most_rows=150)
        report = build_quietly(corpus, folder, hashing, bounds=bounds, replace=number == 2)
        rows = [segment.n_rows for segment in report.manifest.segments]
        assert max(rows) <= 150
        assert len(rows) <= 2 * sum(rows) / 150
        assert 90 == len(open_snapshot(folder))


def test_another_corpus_makes_what_waits_forgotten(
    data: Path, corpus: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indexing another corpus forgets the staged papers, except text that somebody else added too."""
    write_corpus(corpus, many_papers(34))
    with monkeypatch.context() as patched:
        patched.setattr("indexer.collection.build.encode_versions", stop)
        with pytest.raises(KeyboardInterrupt):
            build_quietly(corpus, data, hashing)
    (given,) = read_corpus(write_corpus(data.parent / "one.jsonl", many_papers(31)[30:]))
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert 4 == catalog.count_staged()
        catalog.add([given])
        catalog.delete(["p30"])
        build_quietly(write_corpus(data.parent / "two.jsonl", many_papers(40)[38:]), data, hashing)
        assert 0 == catalog.count_staged()
        hashes = [content_hash(paper) for paper in read_corpus(corpus, report=CorpusReport())][30:]
        assert ["p30"] == [paper.id for paper in catalog.versions(hashes)]
    assert {*(f"p{number}" for number in range(30)), "p38", "p39"} == titles(data).keys()
