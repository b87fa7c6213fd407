"""Re-indexing: all papers are encoded again while the old generation is served, then swapped in."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from akin.cli.app import app
from akin.cli.collection.agreement import compare, overlap, rank_correlation
from indexer.catalog.catalog import Catalog
from indexer.catalog.staging import Version
from indexer.collection.build import build
from indexer.collection.changes import publish_pending
from indexer.collection.delete import delete_papers
from indexer.collection.growth import BOUNDS, Bounds, NewSegment, prepare_segments
from indexer.collection.reindex import PreparedCollection, prepare, publish_prepared, reindex_lock
from indexer.encoding.arguments import BuildArguments
from indexer.files.data_folder import CATALOG_FILE, KEEP, DataFolder, Work
from indexer.snapshot.folder import current_generation
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.segment_writer import KeptPart
from models.annotator import Annotator
from models.encoder import Encoder, load_encoder
from models.errors import (
    BuildLockedError,
    EncoderMismatchError,
    InputError,
    SnapshotCorruptError,
    StorageError,
)
from models.types import EncodedPaper, Facet, Paper, Sentence
from service.search.engine import SearchEngine
from tests.support.annotators import KEYWORDS, KeywordTagger, annotated
from tests.support.builds import (
    Counting,
    Refusing,
    build_quietly,
    many_papers,
    papers_in,
    quiet,
    write_corpus,
)
from tests.support.examples.models.tiny_bert import write_tiny_bert

N_PAPERS = 30
TENS = Bounds(part=10)


def paper(paper_id: str, text: str) -> Paper:
    """Return a paper of one sentence."""
    return Paper(paper_id, paper_id.title(), text, (Sentence(text, 0, len(text)),))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """Return a random BERT."""
    return load_encoder(str(write_tiny_bert(tmp_path_factory.mktemp("models") / "tiny")), device="cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a collection under the hashing encoder with one paper deleted; treat it as read-only."""
    folder = tmp_path_factory.mktemp("made")
    corpus, data = write_corpus(folder / "c.jsonl", many_papers(N_PAPERS)), folder / "data"
    build_quietly(corpus, data, hashing, bounds=TENS)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, ["p3"], catalog, keep=KEEP)
    return data


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """Return a copy of ``made``."""
    return copytree(made, tmp_path / "data")


@pytest.fixture
def catalog(data: Path) -> Iterator[Catalog]:
    """Yield the catalog of ``data``."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        yield catalog


def prepared(
    data: Path, encoder: Encoder, catalog: Catalog, *, bounds: Bounds = TENS, **arguments: str
) -> PreparedCollection:
    """Encode the collection again without publishing it."""
    given = BuildArguments(**{"encoder": encoder.spec.name, "device": "cpu", **arguments})  # type: ignore[arg-type]  # keywords pass through
    with reindex_lock(data):
        return prepare(
            data,
            annotated(encoder),
            catalog,
            arguments=given,
            on_progress=quiet,
            bounds=bounds,
        )


def reindexed(data: Path, encoder: Encoder, catalog: Catalog, bounds: Bounds = TENS) -> Manifest:
    """Encode the collection again and publish it."""
    done = prepared(data, encoder, catalog, bounds=bounds)
    return publish_prepared(data, done, annotated(encoder), catalog, keep=KEEP)


def published_changes(data: Path, encoder: Encoder, catalog: Catalog) -> Manifest:
    """Bring a collection in line with the catalog, and return its manifest."""
    return publish_pending(data, annotated(encoder), catalog, on_progress=quiet, keep=KEEP).manifest


def ids_of(data: Path) -> set[str]:
    """Return the ids of the served papers."""
    snapshot = open_snapshot(data)
    return {snapshot.paper(int(position)).id for position in snapshot.positions}


def test_facets_are_tagged_anew_by_another_tagger(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A re-index with another tagger updates its facets and keeps those that the corpus gave."""
    text = {"title": "t", "abstract": ["Lakes rise.", "We count ducks."]}
    rows = [{**text, "id": "tagged"}, {**text, "id": "given", "facets": ["other", "result"]}]
    build_quietly(write_corpus(tmp_path / "c.jsonl", rows), tmp_path, hashing)
    before = open_snapshot(tmp_path)
    monkeypatch.setitem(KEYWORDS, "count", Facet.METHOD)
    updated = Annotator(hashing, tagger=KeywordTagger("keywords, updated"))
    with Catalog.open(tmp_path / CATALOG_FILE) as catalog:
        with reindex_lock(tmp_path):
            arguments = BuildArguments(encoder=hashing.spec.name, device="cpu")
            done = prepare(tmp_path, updated, catalog, arguments=arguments, on_progress=quiet)
        publish_prepared(tmp_path, done, updated, catalog, keep=KEEP)
    facets = [
        [[sentence.facet for sentence in snapshot.paper(position).sentences] for position in (0, 1)]
        for snapshot in (before, open_snapshot(tmp_path))
    ]
    given = [Facet.OTHER, Facet.RESULT]
    assert [
        [[Facet.BACKGROUND, Facet.BACKGROUND], given],
        [[Facet.BACKGROUND, Facet.METHOD], given],
    ] == facets


class Busy(Counting):
    """An encoder that calls one of ``events`` at the start of each of its first calls."""

    def __init__(self, encoder: Encoder, events: Sequence[Callable[[], object]]) -> None:
        super().__init__(encoder)
        self._events = list(events)

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Call the next event, then encode the papers."""
        if self._events:
            self._events.pop(0)()
        return super().encode(papers, layers=layers)


def test_every_paper_is_encoded_anew_and_served(data: Path, tiny: Encoder, catalog: Catalog) -> None:
    """A re-index publishes all papers of the catalog in one segment with the new encoder's vectors."""
    before = ids_of(data)
    manifest = reindexed(data, tiny, catalog)
    assert ("000003", tiny.spec, 1) == (manifest.generation, manifest.encoder, len(manifest.segments))
    snapshot = open_snapshot(data)
    assert before == ids_of(data) == {f"p{i}" for i in range(N_PAPERS)} - {"p3"}
    (encoded,) = tiny.encode([snapshot.paper(snapshot.position("p7"))])
    np.testing.assert_allclose(snapshot.vectors(snapshot.position("p7")), encoded.sentences, atol=1e-3)
    assert catalog.last_change() == manifest.change
    assert not (data / "building" / "reindex").exists()


def test_the_result_is_that_of_a_build(data: Path, tiny: Encoder, catalog: Catalog, tmp_path: Path) -> None:
    """The files of a re-index are equal, byte for byte, to those of a new build of the same papers."""
    manifest = reindexed(data, tiny, catalog)
    papers = [one for one in many_papers(N_PAPERS) if one["id"] != "p3"]
    build_quietly(write_corpus(tmp_path / "again.jsonl", papers), tmp_path / "anew", tiny, bounds=TENS)
    anew = open_snapshot(tmp_path / "anew").manifest
    assert [segment.files for segment in anew.segments] == [segment.files for segment in manifest.segments]


def test_an_interrupted_run_goes_on(data: Path, tiny: Encoder, catalog: Catalog) -> None:
    """A re-index run again reuses the encoded papers, and the old generation stays served until then."""
    with pytest.raises(KeyboardInterrupt):
        prepared(data, Counting(tiny, stop_after=25), catalog)
    assert "000002" == current_generation(data)
    counting = Counting(tiny)
    done = prepared(data, counting, catalog)
    assert (9, 20, 29) == (counting.n_encoded, done.reused_papers, len(done.snapshot))


def test_what_was_prepared_to_compare_is_published_later(data: Path, tiny: Encoder, catalog: Catalog) -> None:
    """Publishing a prepared re-index encodes only the papers that changed since."""
    assert N_PAPERS - 1 == len(prepared(data, tiny, catalog).snapshot)
    assert "000002" == current_generation(data)
    catalog.add([paper("whales", "Whales sing."), paper("p5", "Another text.")])
    catalog.delete(["p6"])
    counting = Counting(tiny)
    done = prepared(data, counting, catalog)
    assert (0, N_PAPERS - 3) == (counting.n_encoded, len(done.snapshot))
    publish_prepared(data, done, annotated(counting), catalog, keep=KEEP)
    snapshot = open_snapshot(data)
    assert 2 == counting.n_encoded
    assert {"whales", "p5"} < ids_of(data)
    assert (None, "Another text.") == (
        snapshot.find("p6"),
        snapshot.paper(snapshot.position("p5")).abstract,
    )


def test_a_paper_that_changes_while_others_are_read_is_there_once(
    data: Path, catalog: Catalog, tiny: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paper that is replaced after its page was read has one version, and can be deleted."""
    monkeypatch.setattr("indexer.catalog.catalog._PAGE", 10)
    encoder = Busy(tiny, [lambda: catalog.add([paper("p0", "Newer."), paper("p1", "Newer, too.")])])
    done = prepared(data, encoder, catalog)
    catalog.delete(["p0"])
    publish_prepared(data, done, annotated(encoder), catalog, keep=KEEP)
    snapshot = open_snapshot(data)
    shown = [snapshot.paper(int(position)) for position in snapshot.positions]
    assert len(shown) == len({each.id for each in shown}) == len(ids_of(data))
    assert ["Newer, too."] == [each.abstract for each in shown if each.id in ("p0", "p1")]


def test_a_collection_that_changes_as_a_whole_is_read_again(
    data: Path, catalog: Catalog, tiny: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If every paper changes just before the papers are read, they are read as of the later change."""
    current, read = Catalog.current, list[int]()

    def then_read(catalog: Catalog, *, up_to: int) -> Iterator[Version]:
        read.append(up_to)
        if len(read) == 1:
            catalog.add([dataclasses.replace(each, year=1610) for each in papers_in(catalog).values()])
        return current(catalog, up_to=up_to)

    with monkeypatch.context() as patched:
        patched.setattr(Catalog, "current", then_read)
        done = prepared(data, tiny, catalog)
    assert {1610} == {done.snapshot.paper(int(position)).year for position in done.snapshot.positions}


def test_nothing_that_changes_meanwhile_is_lost(
    tmp_path: Path, hashing: Encoder, tiny: Encoder, catalog_place: str | Path
) -> None:
    """Papers added, changed or deleted during a re-index, served or not, are right afterwards."""
    data = tmp_path / "data"
    build(
        [write_corpus(tmp_path / "c.jsonl", many_papers(N_PAPERS))],
        data,
        annotated(hashing),
        arguments=BuildArguments("hashing", device="cpu"),
        on_progress=quiet,
        catalog=catalog_place,
    )

    with Catalog.open(catalog_place) as catalog:

        def served_meanwhile() -> None:
            catalog.add([paper("one", "One."), paper("p5", "Five.")])
            catalog.delete(["p6", "p8"])
            published_changes(data, hashing, catalog)

        def only_accepted() -> None:
            catalog.add([paper("two", "Two."), paper("one", "One again.")])

        def at_the_last_moment() -> None:
            catalog.add([paper("three", "Three."), paper("p6", "Six again.")])
            catalog.delete(["p7"])

        encoder = Busy(tiny, [served_meanwhile, only_accepted, at_the_last_moment])
        # The manifest has all changes accepted before the swap; the last came during it.
        assert 4 == reindexed(data, encoder, catalog, BOUNDS).change
        assert {"one", "two", "p7"} < ids_of(data)
        assert {"p6", "p8"}.isdisjoint(ids_of(data))
        manifest = published_changes(data, tiny, catalog)
        assert 6 == manifest.change == catalog.last_change()
    snapshot = open_snapshot(data)
    texts = {
        key: snapshot.paper(snapshot.position(key)).abstract for key in ("one", "two", "three", "p5", "p6")
    }
    assert {
        "one": "One again.", "two": "Two.", "three": "Three.", "p5": "Five.", "p6": "Six again.",
    } == texts  # fmt: skip
    assert (N_PAPERS + 1, None, tiny.spec) == (len(snapshot), snapshot.find("p7"), manifest.encoder)


def test_a_version_that_cannot_be_encoded_leaves_the_old_one(
    data: Path, tiny: Encoder, catalog: Catalog
) -> None:
    """If a paper changes meanwhile and its new version cannot be encoded, the old version is served."""
    prepared(data, tiny, catalog)
    catalog.add([paper("p6", "POISON of today.")])
    done = prepared(data, tiny, catalog)
    assert done.snapshot.find("p6") is None
    publish_prepared(data, done, annotated(Refusing(tiny)), catalog, keep=KEEP)
    snapshot = open_snapshot(data)
    assert "POISON of today." != snapshot.paper(snapshot.position("p6")).abstract


def test_few_papers_that_change_under_the_lock_are_encoded_alone(
    data: Path, tiny: Encoder, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only papers that change again under the lock are encoded there, and no outdated version is served."""
    done = prepared(data, tiny, catalog)
    catalog.add([paper("one", "One."), paper("two", "Two."), paper("p5", "Five.")])
    last_change, counting = catalog.last_change, Counting(tiny)

    calls = []

    def changed_again() -> int:
        calls.append(1)
        if len(calls) == 2:  # now the lock is held, after a first look without it
            catalog.add([paper("two", "Two again."), paper("p6", "Six.")])
            catalog.delete(["one"])
        return last_change()

    monkeypatch.setattr(catalog, "last_change", changed_again)
    publish_prepared(data, done, annotated(counting), catalog, keep=KEEP)
    assert 3 + 2 == counting.n_encoded
    snapshot = open_snapshot(data)
    texts = [snapshot.paper(snapshot.position(key)).abstract for key in ("two", "p5", "p6")]
    assert ["Two again.", "Five.", "Six."] == texts
    assert (N_PAPERS, None) == (len(snapshot), snapshot.find("one"))
    assert catalog.last_change() == snapshot.manifest.change


def test_each_attempt_writes_only_what_changed_since_the_one_before(
    data: Path, tiny: Encoder, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publishing ends although papers keep coming, and each attempt writes only the new ones."""
    done = prepared(data, tiny, catalog)
    last_change, calls, written = catalog.last_change, [], []

    def changing() -> int:
        calls.append(1)
        catalog.add([paper(f"new {len(calls)} {i}", "Five.") for i in range(20)])
        return last_change()

    def counting(work: Path, parts: Sequence[KeptPart], **named: object) -> list[NewSegment]:
        written.append(sum(map(len, parts)))
        return prepare_segments(work, parts, **named)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(catalog, "last_change", changing)
    monkeypatch.setattr("indexer.collection.growth.prepare_segments", counting)
    manifest = publish_prepared(data, done, annotated(tiny), catalog, keep=KEEP)
    assert ([20, 20, 20, 20], catalog.count()) == (written, manifest.n_papers)


def test_papers_of_the_old_encoder_never_enter_the_new_generation(
    data: Path, hashing: Encoder, tiny: Encoder, catalog: Catalog
) -> None:
    """Papers encoded for the old generation are not added to a new one swapped in meanwhile."""
    catalog.add([paper("whales", "Whales sing.")])
    with pytest.raises(EncoderMismatchError, match="hashing"):
        published_changes(data, Busy(hashing, [lambda: reindexed(data, tiny, catalog)]), catalog)
    catalog.add([paper("seals", "Seals bark.")])
    assert tiny.spec == published_changes(data, tiny, catalog).encoder
    assert {"whales", "seals"} < ids_of(data)
    corpus = write_corpus(data.parent / "more.jsonl", many_papers(N_PAPERS + 5))
    with pytest.raises(EncoderMismatchError):
        build_quietly(corpus, data, Busy(tiny, [lambda: reindexed(data, hashing, catalog)]), bounds=TENS)
    assert (hashing.spec, None) == (
        open_snapshot(data).manifest.encoder,
        open_snapshot(data).find(f"p{N_PAPERS + 2}"),
    )


def test_a_damaged_preparation_is_made_again(data: Path, tiny: Encoder, catalog: Catalog) -> None:
    """A prepared segment that was damaged is made again from its parts, without encoding."""
    prepared(data, tiny, catalog)
    (rows,) = data.glob("building/reindex/segment-*/vectors.npy")
    content = bytearray(rows.read_bytes())
    content[-1] ^= 1
    rows.write_bytes(content)
    counting = Counting(tiny)
    reindexed(data, counting, catalog)
    assert (0, N_PAPERS - 1) == (counting.n_encoded, len(open_snapshot(data)))


def test_one_that_died_between_moving_and_publishing_goes_on(
    data: Path, tiny: Encoder, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A re-index killed before it publishes its segment is published by the next, and leaves no other."""

    def die(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("indexer.collection.growth.publish_added", die)
        with pytest.raises(KeyboardInterrupt):
            reindexed(data, tiny, catalog)
    counting = Counting(tiny)
    manifest = reindexed(data, counting, catalog)
    named = {entry.name for entry in manifest.segments} | {"000001"}
    assert (0, named) == (counting.n_encoded, {path.name for path in (data / "segments").iterdir()})


def test_work_that_was_published_does_not_stay_on_the_disk(
    data: Path, tiny: Encoder, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a re-index is killed after it published, the next publication removes its work; otherwise not."""
    work = DataFolder(data).work(Work.REINDEX)
    for killed_in in ("publish_whole", "discard_folder"):

        def die(*given: object, **named: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(f"indexer.collection.reindex.{killed_in}", die)
            with pytest.raises(KeyboardInterrupt):
                reindexed(data, tiny, catalog)
        is_published = killed_in == "discard_folder"
        catalog.add([paper(killed_in, "Whales sing.")])
        published_changes(data, tiny if is_published else load_encoder("hashing"), catalog)
        assert is_published != work.is_dir()


def test_work_of_another_re_index_is_not_taken_for_published(
    data: Path, tiny: Encoder, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note of a re-index that was killed after it published does not remove the work of a later one."""

    def die(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    for encoder, killed_in in ((tiny, "discard_folder"), (load_encoder("hashing"), "prepare_segments")):
        with monkeypatch.context() as patched:
            patched.setattr(f"indexer.collection.reindex.{killed_in}", die)
            with pytest.raises(KeyboardInterrupt):
                reindexed(data, encoder, catalog)
    catalog.add([paper("new", "Whales sing.")])
    published_changes(data, tiny, catalog)
    assert any(DataFolder(data).parts(Work.REINDEX))


def test_a_lost_generation_comes_back_from_the_catalog(data: Path, tiny: Encoder, catalog: Catalog) -> None:
    """If the served vectors are damaged, a re-index encodes all papers of the catalog."""
    before = ids_of(data)
    for path in (data / "segments").rglob("vectors.npy"):
        path.write_bytes(b"damaged")
    assert before == {f"p{i}" for i in range(N_PAPERS) if i != 3}
    reindexed(data, tiny, catalog)
    assert before == ids_of(data)


def test_another_catalog_is_refused(data: Path, tiny: Encoder, tmp_path: Path) -> None:
    """An empty or foreign catalog is refused, and the error names ``--catalog``."""
    with Catalog.open(tmp_path / "other.sqlite3") as other:
        with pytest.raises(InputError, match="--catalog"):
            prepared(data, tiny, other)
        other.add([paper("one", "One.")])
        with pytest.raises(StorageError, match="--catalog"):
            prepared(data, tiny, other)
    assert ["000001", "000002"] == DataFolder(data).generations()


def test_one_at_a_time(data: Path, tiny: Encoder, catalog: Catalog) -> None:
    """A second re-index at the same time raises BuildLockedError."""
    with reindex_lock(data), pytest.raises(BuildLockedError):
        prepared(data, tiny, catalog)


def test_rankings_are_compared() -> None:
    """Overlap is the share in common; correlation is 1 for the same order and -1 for its reverse."""
    assert 0.5 == overlap(["a", "b", "c", "d"], ["b", "a", "x", "y"], depth=4)
    assert (1.0, 0.0, 1.0) == (
        overlap([], [], depth=9),
        overlap(["a"], [], depth=9),
        overlap("ab", "ba", depth=2),
    )
    assert (1.0, -1.0) == (rank_correlation("abc", "axbc"), rank_correlation("abc", "cba"))
    assert (None, pytest.approx(1 / 3)) == (rank_correlation("ab", "bc"), rank_correlation("abc", "acb"))


def test_a_generation_agrees_with_itself(data: Path, hashing: Encoder, catalog: Catalog) -> None:
    """A re-index with the same encoder gives the same answers in a comparison."""
    old = SearchEngine(open_snapshot(data), lambda: annotated(hashing), n_candidates=200)
    new = SearchEngine(
        prepared(data, hashing, catalog, dtype="float32").snapshot,
        lambda: annotated(hashing),
        n_candidates=200,
    )
    agreement = compare(old, new, n_questions=8, on_progress=quiet)
    assert (8, 1.0, 1.0) == (agreement.n_papers, agreement.first_10, agreement.first_20)
    assert agreement.tau is not None
    assert agreement.tau > 0.99
    assert all(cost.by_id_ms and cost.pasted_ms for cost in (agreement.one, agreement.other))


def test_the_command_compares_and_swaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`akin reindex` compares two generations; with --compare-only the old one stays served.

    The name of a model folder may have brackets. No cluster is joined for it, or for a query of the folder.
    """
    monkeypatch.setenv("AKIN_RAY", "127.0.0.1:1")

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "200"})
        assert 0 == result.exit_code, result.output
        return result.output

    data, folder = str(tmp_path / "data"), str(write_tiny_bert(tmp_path / "run[v2]"))
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(30))
    run("index", str(corpus), "--data", data, "--encoder", "hashing", "--device", "cpu")
    again = ("reindex", "--data", data, "--encoder", folder, "--device", "cpu", "--sample", "3")
    shown = run(*again, "--compare-only")
    assert "000001" == current_generation(Path(data))
    for said in ("hashing", "30 papers are prepared", "first 10 in common", "of 3 papers", "MiB", "ms"):
        assert said in shown
    assert "run[v2]" in shown
    shown = run(*again)
    assert "run[v2])." in shown
    assert "run[v2]" in run("snapshot", "list", "--data", data)
    assert "Generation 000002 with 30 papers is served" in shown
    assert "30 papers were encoded by an earlier run" in shown
    assert "p7" in run("search", "--paper", "p8", "--limit", "29", "--data", data, "--json")
    assert folder == open_snapshot(Path(data)).manifest.arguments["encoder"]
    # Options that are not given stay unchanged.
    assert "Generation 000003" in run("reindex", "--data", data, "--device", "cpu", "--sample", "0")
    assert folder == open_snapshot(Path(data)).manifest.encoder.name


def test_a_damaged_manifest_is_no_hindrance(data: Path, catalog: Catalog) -> None:
    """With a damaged manifest, the command requires --encoder, and then encodes everything again."""

    def run(*options: str) -> Result:
        return CliRunner().invoke(app, ["reindex", "--data", str(data), "--device", "cpu", *options])

    before = ids_of(data)
    manifest = data / "snapshots" / "000002" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b"hashing", b"hushing"))
    with pytest.raises(SnapshotCorruptError, match="akin reindex"):
        open_snapshot(data)
    refused = run()
    assert (1, True) == (refused.exit_code, "--encoder" in refused.output)
    done = run("--encoder", "hashing")
    assert 0 == done.exit_code, done.output
    assert ("000003", before) == (current_generation(data), ids_of(data))
