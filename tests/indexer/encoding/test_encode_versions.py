"""Encoded papers are reused, from a build that died or from the served generation."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.catalog.catalog import Catalog
from indexer.collection.changes import publish_pending
from indexer.collection.delete import delete_papers
from indexer.collection.growth import Bounds, prepare_segments
from indexer.collection.reindex import prepare, publish_prepared
from indexer.collection.rollback import rollback
from indexer.corpus.read import read_corpus
from indexer.encoding import known
from indexer.encoding.arguments import BuildArguments
from indexer.encoding.parts import EncodeHere, Part
from indexer.files.data_folder import CATALOG_FILE, KEEP, DataFolder
from indexer.files.durable import discard_folder, writer_lock
from indexer.files.finished_folders import NOTE
from indexer.files.progress_notes import read_note, write_note
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_segments, open_snapshot
from models.checksums import matches_checksum, sha256_of
from models.encoder import Encoder
from models.errors import StorageError
from models.types import EncodedPaper, Paper, Sentence
from tests.support.annotators import annotated
from tests.support.builds import Counting, Refusing, build_quietly, many_papers, quiet, write_corpus
from tests.support.trials.damage import flip

Kill = Callable[[Encoder], None]

TENS = Bounds(part=10)


@pytest.fixture
def data(tmp_path: Path, hashing: Encoder) -> Path:
    """Return a collection of 10 papers, next to a corpus of 40."""
    build_quietly(
        write_corpus(tmp_path / "c.jsonl", many_papers(10)), tmp_path / "data", hashing, bounds=TENS
    )
    write_corpus(tmp_path / "c.jsonl", many_papers(40))
    return tmp_path / "data"


@pytest.fixture
def kill(data: Path, monkeypatch: pytest.MonkeyPatch) -> Kill:
    """Return a function that indexes the corpus until its papers are in the catalog, and no further."""

    def full(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    def until_catalogued(encoder: Encoder) -> None:
        with monkeypatch.context() as broken:
            broken.setattr("indexer.collection.growth.publish_added", full)
            with pytest.raises(StorageError):
                build_quietly(data.parent / "c.jsonl", data, encoder, bounds=TENS)

    return until_catalogued


def published_changes(data: Path, encoder: Encoder) -> Manifest:
    """Bring a collection in line with the catalog, as a service does, and return its manifest."""
    annotator = annotated(encoder)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        return publish_pending(data, annotator, catalog, on_progress=quiet, keep=KEEP).manifest


def assert_encoded(data: Path, encoder: Encoder, *paper_ids: str) -> None:
    """Assert that the served vectors of papers are those of an encoder."""
    snapshot = open_snapshot(data)
    for paper_id in paper_ids:
        position = snapshot.position(paper_id)
        (encoded,) = encoder.encode([snapshot.paper(position)])
        np.testing.assert_allclose(encoded.sentences, snapshot.vectors(position), atol=1e-3)


def content_hash_of(data: Path, paper_id: str) -> str:
    """Return the content hash of the current version of a paper."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        return catalog.current_hashes([paper_id])[paper_id]


def add(data: Path, paper_id: str) -> None:
    """Add a paper through the catalog."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([Paper(paper_id, "Whales", "Sing.", (Sentence("Sing.", 0, 5),))])


def test_a_service_encodes_nothing_that_a_dead_build_had(data: Path, hashing: Encoder, kill: Kill) -> None:
    """A service publishes the papers that a dead build encoded, and the build then finds nothing to do."""
    kill(hashing)
    counting = Counting(hashing)
    assert 40 == published_changes(data, counting).n_papers
    assert 0 == counting.n_encoded
    assert_encoded(data, hashing, "p10", "p25", "p39")
    # If it stayed, every later change would search all of its parts.
    assert not (data / "building" / "corpus").exists()
    again = Counting(hashing)
    report = build_quietly(data.parent / "c.jsonl", data, again, bounds=TENS)
    assert (0, 0, 40) == (again.n_encoded, report.staging.n_papers, report.staging.unchanged)


def test_unfinished_work_is_read_once(
    data: Path, hashing: Encoder, kill: Kill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of unfinished work is read once in a process, and once more after it was written again."""
    kill(hashing)
    read: list[Path] = []

    def noted(path: Path) -> dict[str, Any]:
        read.append(path.parent)
        return read_note(path)

    monkeypatch.setattr(known, "read_note", noted)
    like, parts = open_snapshot(data).manifest, DataFolder(data).parts()
    for written_again in (None, None, parts[1]):
        if written_again is not None:
            write_note(written_again / NOTE, read_note(written_again / NOTE))
        wanted = {"p25": content_hash_of(data, "p25")}
        taken, refused, folders = known.KnownVersions(data, like, into=data.parent / "own").take(wanted)
        assert ([1], [], 1, {}) == ([len(part) for part in taken], refused, len(folders), wanted)
    assert [*parts, parts[1]] == read[:3] + read[-1:]
    assert 4 == len(read)


def test_what_changed_since_is_encoded_alone(data: Path, hashing: Encoder, kill: Kill) -> None:
    """After a build died, only papers added or replaced since are encoded, and deleted ones left out."""
    kill(hashing)
    add(data, "whales")
    add(data, "p12")
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.delete(["p13"])
    counting = Counting(hashing)
    assert 40 == published_changes(data, counting).n_papers
    assert 2 == counting.n_encoded
    snapshot = open_snapshot(data)
    assert "Sing." == snapshot.paper(snapshot.position("p12")).abstract
    assert snapshot.find("p13") is None


def go_and_come_back(data: Path) -> None:
    """Delete a paper, then make its version current again in the catalog only."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        versions = catalog.current_hashes(["p3"])
        delete_papers(data, ["p3"], catalog, keep=KEEP)
        catalog.restore(versions, at=1)


def test_what_is_served_is_not_encoded_again(data: Path, hashing: Encoder) -> None:
    """A paper that comes back and a corpus that replaces all reuse the served vectors."""
    go_and_come_back(data)
    counting = Counting(hashing)
    assert (10, 0) == (published_changes(data, counting).n_papers, counting.n_encoded)
    report = build_quietly(data.parent / "c.jsonl", data, counting, replace=True, bounds=TENS)
    assert (30, 10, 40) == (counting.n_encoded, report.reused_papers, report.manifest.n_papers)
    assert_encoded(data, hashing, "p3", "p7", "p17")


def test_one_paper_of_many_is_taken_from_its_segment(tmp_path: Path, hashing: Encoder) -> None:
    """A paper that comes back is not encoded again, even from a large segment."""
    corpus, data = write_corpus(tmp_path / "c.jsonl", many_papers(1_100)), tmp_path / "data"
    build_quietly(corpus, data, hashing)
    go_and_come_back(data)
    counting = Counting(hashing)
    assert (1_100, 0) == (published_changes(data, counting).n_papers, counting.n_encoded)


def test_a_segment_is_compared_once_for_papers_that_come_back(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment is compared with its checksum once, not for each paper that comes back."""
    monkeypatch.setattr("indexer.snapshot.checksum_record._RESTED_NS", 0)
    read: list[str] = []
    monkeypatch.setattr(
        "indexer.snapshot.folder.sha256_of", lambda path: read.append(path.name) or sha256_of(path)
    )
    (data / "building" / "verified.json").unlink(missing_ok=True)
    base, n_read = open_snapshot(data), []
    (data / "building" / "verified.json").unlink()
    with Catalog.open(data / CATALOG_FILE) as catalog:
        for paper_id in ("p3", "p4"):
            versions = catalog.current_hashes([paper_id])
            catalog.delete([paper_id])
            publish_pending(data, annotated(hashing), catalog, on_progress=quiet, keep=KEEP, base=base)
            catalog.restore(versions, at=1)
            read.clear()
            publish_pending(data, annotated(hashing), catalog, on_progress=quiet, keep=KEEP, base=base)
            n_read.append(read.count("vectors.npy"))
    assert [True, False] == [n > 0 for n in n_read]


def test_damaged_segments_are_not_taken_over(data: Path, hashing: Encoder) -> None:
    """Papers of a damaged segment are encoded again instead of copied under a new checksum."""
    counting, damaged = Counting(hashing), [*(data / "segments").rglob("vectors.npy")]
    go_and_come_back(data)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        base = open_snapshot(data)  # compared when it was opened, and damaged since
        for path in damaged:
            flip(path)
        publish_pending(data, annotated(counting), catalog, on_progress=quiet, keep=KEEP, base=base)
        assert 1 == counting.n_encoded
    build_quietly(data.parent / "c.jsonl", data, counting, replace=True, bounds=TENS)
    assert 1 + 39 == counting.n_encoded  # without the one that is in a new segment
    open_snapshot(data)


@pytest.mark.parametrize(
    "pattern", ["part-*/papers.arrow", "part-*/vectors.npy", "part-*/ids.npy", "part-*/kept.json"]
)
def test_damaged_vectors_are_made_again(data: Path, hashing: Encoder, kill: Kill, pattern: str) -> None:
    """Only the papers of a damaged part are encoded again."""
    kill(hashing)
    flip(sorted((data / "building" / "corpus").glob(pattern))[0])
    counting = Counting(hashing)
    assert 40 == published_changes(data, counting).n_papers
    assert 10 == counting.n_encoded


def test_vectors_of_other_models_are_not_taken(data: Path, hashing: Encoder, kill: Kill) -> None:
    """A re-index with another dtype encodes every paper, pending ones too."""
    kill(hashing)
    counting = Counting(hashing)
    annotator = annotated(counting)
    arguments = BuildArguments(encoder="hashing", device="cpu", dtype="float32")
    with Catalog.open(data / CATALOG_FILE) as catalog:
        prepared = prepare(data, annotator, catalog, arguments=arguments, on_progress=quiet, bounds=TENS)
        add(data, "whales")
        manifest = publish_prepared(data, prepared, annotator, catalog, keep=KEEP)
    assert (41, 41, "float32") == (manifest.n_papers, counting.n_encoded, manifest.dtype)


def test_a_killed_service_takes_them_up_again(
    data: Path, hashing: Encoder, kill: Kill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Papers that a dead build encoded are also reused after a service died."""
    kill(hashing)
    counting = Counting(hashing)
    with monkeypatch.context() as broken:
        broken.setattr(
            "indexer.collection.growth.publish_added",
            lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt),
        )
        with pytest.raises(KeyboardInterrupt):
            published_changes(data, counting)
    assert (40, 0) == (published_changes(data, counting).n_papers, counting.n_encoded)


def test_a_build_under_way_keeps_what_it_encoded(data: Path, hashing: Encoder, kill: Kill) -> None:
    """While a build holds its lock, others reuse its parts and remove none."""
    kill(hashing)
    counting = Counting(hashing)
    with writer_lock(data / "building" / "corpus.lock"):
        assert 40 == published_changes(data, counting).n_papers
    assert 0 == counting.n_encoded
    assert 3 == len([*(data / "building" / "corpus").glob("part-*")])


def test_papers_that_could_not_be_encoded_stay_out(data: Path, hashing: Encoder, kill: Kill) -> None:
    """A paper that the dead build refused is quarantined without trying it again."""
    papers = [*many_papers(40), {"id": "bad", "title": "Bad", "abstract": ["POISON sings."]}]
    write_corpus(data.parent / "c.jsonl", papers)
    kill(Refusing(hashing))
    with Catalog.open(data / CATALOG_FILE) as catalog:
        models = open_snapshot(data).manifest.models_key
        (refused,) = catalog.quarantine(models, limit=1).first
        catalog.note_encoding(models, [refused.content_hash], [])  # as if the build had died a moment earlier
        counting = Counting(hashing)
        assert 40 == published_changes(data, counting).n_papers
        assert (0, (refused,)) == (counting.n_encoded, catalog.quarantine(models, limit=1).first)


def test_a_file_system_without_links_gets_copies(
    data: Path, hashing: Encoder, kill: Kill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If files cannot be linked, they are copied, and nothing is encoded again."""

    def refused(*_: object) -> None:
        raise PermissionError

    kill(hashing)
    monkeypatch.setattr("os.link", refused)
    counting = Counting(hashing)
    assert (40, 0) == (published_changes(data, counting).n_papers, counting.n_encoded)


def test_what_others_remove_meanwhile_is_still_there(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build keeps the parts that it reuses from a service, even if the service removes them meanwhile."""
    corpus = data.parent / "c.jsonl"
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([paper for paper in read_corpus(corpus) if paper.id in {"p20", "p30"}])
    with monkeypatch.context() as broken:
        broken.setattr(
            "indexer.collection.growth.publish_added",
            lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt),
        )
        with pytest.raises(KeyboardInterrupt):
            published_changes(data, hashing)

    def removed_first(*given: object, **named: object) -> object:
        discard_folder(data / "building" / "changes")
        return prepare_segments(*given, **named)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr("indexer.collection.build.prepare_segments", removed_first)
    counting = Counting(hashing)
    report = build_quietly(corpus, data, counting, bounds=TENS)
    assert (28, 2, 40) == (counting.n_encoded, report.reused_papers, report.manifest.n_papers)


def test_a_command_that_ends_meanwhile_does_no_harm(
    data: Path, hashing: Encoder, kill: Kill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another command removes its parts while they are looked through, what they had is encoded."""
    kill(hashing)

    def removed_then(file: Path, digest: str) -> bool:
        found = matches_checksum(file, digest)
        discard_folder(file.parent)
        return found

    monkeypatch.setattr("indexer.encoding.known.matches_checksum", removed_then)
    counting = Counting(hashing)
    assert (40, 30) == (published_changes(data, counting).n_papers, counting.n_encoded)


class Ahead:
    """Encodes like ``EncodeHere``, but each part only once it is awaited, with several begun before."""

    def __init__(self, encoder: Encoder) -> None:
        self._encode = EncodeHere(annotated(encoder))
        self.at_once = 3
        self.done: list[str] = []

    def __call__(
        self, into: Path, papers: Sequence[Paper], *, like: Manifest, on_progress: Callable[[int], None]
    ) -> Callable[[], Part]:
        """Begin a part."""
        self.done.append(f"begin {papers[0].id}")

        def part() -> Part:
            self.done.append(f"wait {papers[0].id}")
            return self._encode(into, papers, like=like, on_progress=on_progress)()

        return part


def test_parts_are_begun_before_others_are_done(tmp_path: Path, hashing: Encoder) -> None:
    """As many parts as allowed are begun ahead, in order, and the collection is the same."""
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(50))
    ahead = Ahead(hashing)
    build_quietly(corpus, tmp_path / "ahead", hashing, bounds=TENS, encode=ahead)
    build_quietly(corpus, tmp_path / "here", hashing, bounds=TENS)
    first = [f"begin p{number}" for number in (0, 10, 20)]
    turns = [each for number in (30, 40) for each in (f"wait p{number - 30}", f"begin p{number}")]
    assert [*first, *turns, *(f"wait p{number}" for number in (20, 30, 40))] == ahead.done
    made, other = (open_snapshot(tmp_path / name) for name in ("ahead", "here"))
    assert [each.entry.files for each in made.segments] == [each.entry.files for each in other.segments]


class Beside(Counting):
    """An encoder that calls ``event`` before its first papers."""

    def __init__(self, encoder: Encoder, event: Callable[[], object]) -> None:
        super().__init__(encoder)
        self._events = [event]

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Call the event, then encode the papers."""
        if self._events:
            self._events.pop()()
        return super().encode(papers, layers=layers)


@pytest.mark.parametrize("bounds", [Bounds(part=5, publish_every=5), Bounds(part=5, publish_every=0)])
def test_what_others_publish_meanwhile_is_not_encoded_again(
    data: Path, hashing: Encoder, bounds: Bounds
) -> None:
    """While a corpus is encoded, a service publishes papers of it that come later; they are reused."""
    corpus, other = data.parent / "c.jsonl", Counting(hashing)
    later = [paper for paper in read_corpus(corpus) if paper.id in {f"p{n}" for n in range(28, 38)}]

    def publish_some() -> None:
        with Catalog.open(data / CATALOG_FILE) as catalog:
            catalog.add(later)
        published_changes(data, other)

    beside = Beside(hashing, publish_some)
    report = build_quietly(corpus, data, beside, bounds=bounds)
    assert (10, 20) == (other.n_encoded, beside.n_encoded)
    assert (10, 40) == (report.reused_papers, report.manifest.n_papers)
    assert len(DataFolder(data).generations()) <= KEEP + 1  # none is kept longer because it was read


def test_what_a_rollback_undid_is_not_encoded_again(data: Path, hashing: Encoder) -> None:
    """Papers that return after a rollback are taken from the generation that was rolled back."""
    corpus = data.parent / "c.jsonl"
    build_quietly(corpus, data, hashing, bounds=TENS)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        rollback(data, catalog=catalog)
    counting = Counting(hashing)
    assert 10 == open_snapshot(data).manifest.n_papers
    report = build_quietly(corpus, data, counting, bounds=TENS)
    assert (0, 40) == (counting.n_encoded, report.manifest.n_papers)
    assert_encoded(data, hashing, "p3", "p17", "p39")


def test_a_damaged_segment_of_an_older_generation_is_not_taken_over(data: Path, hashing: Encoder) -> None:
    """Papers that return after a rollback are encoded again if their segment is damaged by then."""
    before = {*(data / "segments").iterdir()}
    corpus = data.parent / "c.jsonl"
    build_quietly(corpus, data, hashing, bounds=TENS)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        rollback(data, to="000001", catalog=catalog)
    for folder in {*(data / "segments").iterdir()} - before:
        flip(folder / "vectors.npy")
    counting = Counting(hashing)
    report = build_quietly(corpus, data, counting, bounds=TENS)
    assert (30, 40) == (counting.n_encoded, report.manifest.n_papers)
    open_snapshot(data)


def test_another_encoder_and_back_encodes_each_paper_once(data: Path, hashing: Encoder) -> None:
    """A re-index to another number format, and one back, reuse the generation before."""
    counting = Counting(hashing)
    annotator = annotated(counting)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        for dtype in ("float32", "float16"):
            arguments = BuildArguments(encoder="hashing", device="cpu", dtype=dtype)
            prepared = prepare(data, annotator, catalog, arguments=arguments, on_progress=quiet, bounds=TENS)
            manifest = publish_prepared(data, prepared, annotator, catalog, keep=KEEP)
    assert (10, 10, "float16") == (counting.n_encoded, manifest.n_papers, manifest.dtype)
    assert_encoded(data, hashing, "p3", "p7")


def test_a_segment_with_older_versions_is_opened_once(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If all papers have changed, their old segment is opened once, not for each run of papers."""
    opened: list[str] = []

    def counting(folder: Path, generation: str, names: set[str], **named: object) -> object:
        opened.extend(names)
        return open_segments(folder, generation, names, **named)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr("indexer.encoding.known.open_segments", counting)
    papers = [{**paper, "title": f"Newer {number}"} for number, paper in enumerate(many_papers(10))]
    changed, encoder = write_corpus(data.parent / "changed.jsonl", papers), Counting(hashing)
    build_quietly(changed, data, encoder, bounds=Bounds(part=2, publish_every=0))
    assert (["000001"], 10) == (opened, encoder.n_encoded)
