"""A purge removes the text of papers from the catalog, every generation and unfinished work, on disk too."""

import errno
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from akin.cli.app import app
from indexer.catalog.catalog import Catalog
from indexer.catalog.purging import PurgeCounts
from indexer.collection.changes import publish_pending
from indexer.collection.delete import delete_papers
from indexer.collection.growth import Bounds, publish_changes
from indexer.collection.purge import Purge, purge_papers
from indexer.collection.reindex import prepare
from indexer.collection.rollback import rollback
from indexer.corpus.lookup.found import FoundPapers, note_unresolved
from indexer.corpus.read import Unresolved
from indexer.corpus.rows import RawPaper
from indexer.encoding.arguments import BuildArguments
from indexer.files.data_folder import CATALOG_FILE, DataFolder, Work
from indexer.files.durable import writer_lock
from indexer.snapshot.folder import verify
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.errors import BatchNotFoundError, BuildLockedError, StorageError
from models.types import Paper, Sentence
from service.batches.job import ChunkContent, NewJob
from service.batches.jobs import Jobs
from tests.support.annotators import annotated
from tests.support.builds import Counting, Refusing, build_quietly, many_papers, quiet, write_corpus

MARK = "Zyzzogeton"


def secret(version: str = "", paper_id: str = "p7") -> Paper:
    """Return a paper with a title and an abstract that must be removed."""
    text = f"{MARK}{version} flies far. It is {MARK} again."
    end = text.index(".") + 1
    sentences = (Sentence(text[:end], 0, end), Sentence(text[end + 1 :], end + 1, len(text)))
    return Paper(paper_id, f"On {MARK} {version}", text, sentences, authors=(f"{MARK}, A.",))


def add(data: Path, papers: Sequence[Paper], encoder: Encoder) -> None:
    """Add papers and publish them."""
    annotator = annotated(encoder)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add(papers)
        publish_pending(data, annotator, catalog, on_progress=quiet, keep=10)


def purge(data: Path, *ids: str, busy_timeout_s: float = 30) -> Purge:
    """Purge papers of a collection."""
    with Catalog.open(data / CATALOG_FILE, busy_timeout_s=busy_timeout_s) as catalog:
        return purge_papers(data, ids, catalog)


def batch(jobs: Jobs, owner: str) -> str:
    """Add a batch of two chunks, the first of them finished with the text in its results; return its id."""
    chunks = [ChunkContent(1, b"first"), ChunkContent(1, f"pasted {MARK}".encode())]
    job = jobs.add(NewJob(owner, None, owner, "000001", b"", chunks), most=9, most_of_owner=9)
    chunk = jobs.claim()
    assert chunk is not None
    assert jobs.finish(chunk, f"{MARK} of {owner}".encode(), n_problems=0)
    return job.id


def places(data: Path, text: str = MARK) -> list[str]:
    """Return every file below a folder that contains a text in any case."""
    wanted = text.lower().encode()
    return sorted(
        str(path.relative_to(data))
        for path in data.rglob("*")
        if path.is_file() and wanted in path.read_bytes().lower()
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a collection of 30 papers, one with two versions of the text; treat it as read-only."""
    folder = tmp_path_factory.mktemp("made")
    build_quietly(write_corpus(folder / "c.jsonl", many_papers(30)), folder / "data", hashing)
    for version in ("one", "two"):
        add(folder / "data", [secret(version)], hashing)
    return folder / "data"


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """Return a copy of ``made``."""
    return shutil.copytree(made, tmp_path / "data")


def test_nothing_below_the_folder_has_the_text_any_more(data: Path) -> None:
    """A purge removes the text from every file and generation, and all other papers stay served."""
    before = open_snapshot(data)
    others = {before.paper(int(i)).id for i in before.positions} - {"p7"}
    del before
    assert CATALOG_FILE in places(data)
    assert len([place for place in places(data) if place.endswith("papers.arrow")]) >= 2
    done = purge(data, "p7")
    assert [] == places(data)
    assert (3, ("000002", "000003"), ()) == (done.n_versions, done.removed[-2:], done.leased)
    assert [done.manifest.generation] == DataFolder(data).generations()
    assert verify(data, done.manifest.generation).n_papers == 29
    snapshot = open_snapshot(data)
    assert others == {snapshot.paper(int(i)).id for i in snapshot.positions}


def test_a_paper_deleted_long_ago_is_purged_too(data: Path) -> None:
    """The text of a paper deleted by `akin delete` stays in files until a purge removes it."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, ["p7"], catalog, keep=1)
    assert places(data)
    purge(data, "p7")
    assert [] == places(data)
    assert 29 == len(open_snapshot(data))


def test_what_could_not_be_encoded_is_purged_from_unfinished_work(
    data: Path, tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed `akin index`, and a re-index that only compared, name no purged paper as refused any more."""
    bad = {"id": "Quokka", "title": "Bad", "abstract": ["POISON sings."]}
    corpus = write_corpus(tmp_path / "bad.jsonl", [bad, *many_papers(33)[30:]])
    with monkeypatch.context() as patched:
        patched.setattr(Catalog, "publish", stop)
        with pytest.raises(KeyboardInterrupt):
            build_quietly(corpus, data, Refusing(hashing))
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([Paper("Quokka", "Bad", "POISON sings.", (Sentence("POISON sings.", 0, 13),))])
        arguments = BuildArguments(encoder="hashing", backend="flat", device="cpu")
        prepare(data, annotated(Refusing(hashing)), catalog, arguments=arguments, on_progress=quiet)
    unfinished = [place for place in places(data, "Quokka") if place.startswith("building")]
    assert {"corpus", "reindex"} == {Path(place).parts[1] for place in unfinished}
    assert "building/reindex/prepared.json" in unfinished
    purge(data, "Quokka")
    assert [] == [place for place in places(data, "Quokka") if place.startswith("building")]


def stop(*_: object, **__: object) -> None:
    """Stop as Ctrl-C does."""
    raise KeyboardInterrupt


def test_only_segments_that_hold_it_are_written_anew(data: Path, hashing: Encoder) -> None:
    """Segments and generations without the purged paper are kept."""
    add(data, [secret("three", "other")], hashing)
    (first, *_) = open_snapshot(data).segments
    assert first.position("other") is None
    done = purge(data, "other")
    assert first.entry.name in [entry.name for entry in done.manifest.segments]
    assert "000001" in DataFolder(data).generations()  # a generation that never held the paper
    assert 30 == done.manifest.n_papers


def test_unfinished_work_is_looked_through(data: Path, tmp_path: Path, hashing: Encoder) -> None:
    """A killed build loses what it has encoded and staged of the purged paper, and nothing else."""
    others = [paper for paper in many_papers(40) if paper["id"] != "p7"]
    corpus = [{"id": "late", "title": MARK, "abstract": [f"{MARK} flies."]}, *others]
    write_corpus(tmp_path / "d.jsonl", corpus)
    with pytest.raises(KeyboardInterrupt):
        build_quietly(tmp_path / "d.jsonl", data, Counting(hashing, stop_after=10), bounds=Bounds(part=5))
    purge(data, "p7")
    assert [place for place in places(data) if place.startswith("building")]
    purge(data, "late")
    assert [] == places(data)
    assert 1 == len([*data.glob("building/corpus/part-*")])
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert 10 == catalog.count_staged()


def test_prepared_segments_without_it_stay(data: Path, hashing: Encoder) -> None:
    """A purge removes a segment that `akin reindex` has prepared only if it contains one of the papers."""
    arguments = BuildArguments(encoder="hashing", device="cpu", dtype="float32")
    with Catalog.open(data / CATALOG_FILE) as catalog:
        prepare(data, annotated(hashing), catalog, arguments=arguments, on_progress=quiet)
    before = sorted(data.glob("building/reindex/segment-*/*"))
    assert {"papers.arrow", "words.arrow"} <= {path.name for path in before}
    assert purge(data, "typo").found_nothing
    assert before == sorted(data.glob("building/reindex/segment-*/*"))
    purge(data, "p7")
    assert ([], []) == (places(data), [*data.glob("building/reindex/segment-*")])


def test_what_was_looked_up_leaves_too(data: Path) -> None:
    """Looked-up records are purged by id and by the title of any version, also superseded lines."""
    lookups = DataFolder(data).lookups
    found = FoundPapers(lookups)
    lamps = RawPaper("doi:10.5/lamps", "Lamps", "Lamps are dim.", lookup="doi:10.5/lamps")
    by_title = RawPaper("doi:10.5/z", f"on  {MARK.lower()} ONE", f"{MARK} flies.", lookup="doi:10.5/z")
    by_id = RawPaper("p7", None, f"{MARK} flies.", lookup="doi:10.5/y")
    with Catalog.open(data / CATALOG_FILE) as catalog:  # a title that the table escapes
        catalog.add([replace(secret("three"), title=f"-{MARK} three")])
    found.add({str(paper.lookup): paper for paper in (lamps, by_title, by_id)})
    found.add({"doi:10.5/lamps": replace(lamps, abstract="Lamps are bright.")})
    unresolved = [Unresolved("arxiv:1", f"On {MARK} two", "c", 1), Unresolved("pmid:4", "Salt", "c", 2)]
    unresolved.append(Unresolved("pmid:5", f"-{MARK} three", "c", 3))
    note_unresolved(lookups, unresolved, [])
    purge(data, "p7", "None")
    assert [] == places(data)
    assert {"doi:10.5/lamps": "Lamps are bright."} == {
        key: paper.abstract for key, paper in FoundPapers(lookups).items()
    }
    assert "Salt" in (lookups / "unresolved.csv").read_text()


def test_a_generation_that_is_read_stays_and_is_named(data: Path) -> None:
    """A generation that a process still reads is reported, and removed by the next purge after that."""
    reader = open_snapshot(data)
    done = purge(data, "p7")
    assert ((reader.generation,), True) == (done.leased, bool(places(data)))
    assert "p7" == reader.paper(reader.position("p7")).id
    command = ["purge", "p7", "--data", str(data)]
    refused = CliRunner().invoke(app, command)
    assert (1, True) == (
        refused.exit_code,
        f"a process still reads it: generation {done.leased[0]}" in refused.stderr,
    )
    del reader
    assert 0 == CliRunner().invoke(app, command).exit_code
    assert [] == places(data)


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_generation_with_purged_text_is_not_served_again(data: Path, *, is_lost: bool) -> None:
    """A rollback refuses a generation that still shows a purged paper, also if CURRENT is lost."""
    reader = open_snapshot(data)
    done = purge(data, "p7")
    pointer = DataFolder(data).current
    if is_lost:
        pointer.unlink()
    with Catalog.open(data / CATALOG_FILE) as catalog:
        last = catalog.last_change()
        with pytest.raises(StorageError, match="shows 1 paper that the catalog no longer has, such as 'p7'"):
            rollback(data, reader.generation, catalog=catalog)
        assert (last, is_lost) == (catalog.last_change(), not pointer.exists())
        rollback(data, done.manifest.generation, catalog=catalog)
    assert open_snapshot(data).find("p7") is None


def test_a_damaged_generation_is_removed(data: Path) -> None:
    """An older generation with a damaged manifest is removed, because its papers cannot be known."""
    DataFolder(data).manifest("000002").write_text("{}")
    assert "000002" in purge(data, "p7").removed
    assert [] == places(data)


def test_a_purge_waits_for_nobody_who_indexes(data: Path) -> None:
    """While a build runs, a purge is refused before anything is changed."""
    with writer_lock(data / "building" / "corpus.lock"), pytest.raises(BuildLockedError):
        purge(data, "p7")
    assert open_snapshot(data).find("p7") is not None


def test_a_purge_that_was_killed_is_finished_by_the_next(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a purge killed before it removes old generations, the same command removes the rest."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("indexer.collection.purge.remove_generations", killed)
        with pytest.raises(KeyboardInterrupt):
            purge(data, "p7")
    assert open_snapshot(data).find("p7") is None
    assert places(data)
    purge(data, "p7")
    assert [] == places(data)


def test_what_a_purge_had_merged_that_was_killed_goes(data: Path) -> None:
    """A purge removes the merge folder of a killed one, even if it has nothing to merge."""
    purge(data, "p7")
    left = DataFolder(data).work(Work.MERGE)
    (left / "segment-begun").mkdir(parents=True)
    purge(data, "p7")
    assert not left.exists()


def test_a_purged_paper_may_come_again(data: Path, hashing: Encoder) -> None:
    """A purged paper that is added again is served as a new paper."""
    purge(data, "p7")
    add(data, [secret("two")], hashing)
    assert open_snapshot(data).find("p7") is not None


def test_a_paper_that_comes_again_meanwhile_is_purged_too(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a feed adds the paper again before its deletion is published, the purge deletes it once more."""
    fed: list[Paper] = []

    def after_another(*given: object, **named: object) -> object:
        if not fed:
            with Catalog.open(data / CATALOG_FILE) as feed:
                fed.append(secret("two"))
                feed.add(fed)
        return publish_changes(*given, **named)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr("indexer.collection.delete.publish_changes", after_another)
    done = purge(data, "p7")
    assert fed
    assert [] == places(data)
    assert (29, None) == (done.manifest.n_papers, open_snapshot(data).find("p7"))


def test_a_file_that_cannot_be_removed_is_an_error(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a discarded file stays, the purge names it, and says so again until it can be removed."""

    removed = shutil.rmtree

    def rmtree(folder: Path, **given: bool) -> None:
        if folder.parent.name in {"segments", "snapshots"}:
            raise PermissionError(errno.EACCES, "no", str(folder))
        removed(folder, **given)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", rmtree)
        for _ in range(2):
            with pytest.raises(StorageError, match=r"discarded.*permission denied"):
                purge(data, "p7")
    assert places(data)
    purge(data, "p7")
    assert [] == places(data)


def test_ids_that_nobody_knows_change_nothing(data: Path) -> None:
    """If all ids are unknown, no generation is made or removed, and the command fails with their names."""
    before = DataFolder(data).generations()
    done = purge(data, "nobody", "")
    assert (0, (), before) == (done.n_versions, done.removed, DataFolder(data).generations())
    assert (("nobody", ""), False) == (done.unknown, done.is_new)
    shown = CliRunner().invoke(app, ["purge", "nobody", "--data", str(data)])
    assert 1 == shown.exit_code
    assert "not in the collection: nobody" in shown.stderr
    assert "nothing was purged" in shown.stderr
    assert "" == shown.stdout


def test_ids_that_nobody_knows_are_named_beside_others(data: Path) -> None:
    """Unknown ids are named while known ones are purged, and a repeated purge publishes no generation."""
    command = ["purge", "p7", "nobody", "--data", str(data)]
    first, second = CliRunner().invoke(app, command), CliRunner().invoke(app, command)
    for shown, since in ((first, "from now on"), (second, "as before")):
        assert (0, "not in the collection: nobody\n") == (shown.exit_code, shown.stderr[-30:])
        assert f"is served {since}." in shown.stdout


def test_the_catalog_forgets_all_versions(catalog_place: str | Path) -> None:
    """In both databases, only the deletion of a purged paper is left, and other papers stay."""
    with Catalog.open(catalog_place) as catalog:
        for paper in (secret("one"), secret("two"), secret("other", "p8")):
            catalog.add([paper])
        (digest,) = [str(own) for key, own in catalog.changed_since(0).items() if key == "p7"]
        catalog.note_encoding("m" * 64, [], [])
        assert PurgeCounts(2, 0, 0) == catalog.purge(["p7", "nobody"])
        assert ({"p7": None}, {"p8"}) == (
            catalog.changed_since(3),
            {*catalog.current_hashes(["p7", "p8", "nobody"])},
        )
        assert [] == list(catalog.versions([digest]))
        assert ["p8"] == [*catalog.current_hashes(["p8"])]
        assert PurgeCounts(0, 0, 0) == catalog.purge(["p7"])


def test_batches_leave_with_their_queries_and_results(catalog_place: str | Path) -> None:
    """In both databases, a purge removes every batch of any owner; chunks being computed cannot finish."""
    with Catalog.open(catalog_place) as catalog, Jobs.open(catalog_place) as jobs:
        catalog.add([secret()])
        ids = [batch(jobs, owner) for owner in ("a", "b")]
        finished, under_way = jobs.claim(), jobs.claim()
        assert finished is not None
        assert under_way is not None
        assert jobs.finish(finished, MARK.encode(), n_problems=0)
        assert PurgeCounts(0, 0, 0) == catalog.purge(["nobody"])
        assert PurgeCounts(1, 2, 0) == catalog.purge(["p7"])
        for job_id in ids:
            assert jobs.results(job_id, 0) is None
            with pytest.raises(BatchNotFoundError):
                jobs.get(job_id, owner=None)
        assert not jobs.finish(under_way, MARK.encode(), n_problems=0)
        assert (set(), None) == (jobs.generations(), jobs.claim())
        batch(jobs, "a")
        assert PurgeCounts(0, 1, 0) == catalog.purge(["p7"])  # a repeated purge


def test_the_file_keeps_no_byte_of_batches(data: Path) -> None:
    """Results of batches are removed from SQLite's pages too, and the command counts the batches."""
    with Jobs.open(data / CATALOG_FILE) as jobs:
        batch(jobs, "a")
        assert places(data, f"{MARK} of a")
        command = ["purge", "p7", "--data", str(data)]
        assert "Removed 1 batch, whose results may hold the text." in CliRunner().invoke(app, command).stdout
        assert [] == places(data)
        assert "batch" not in CliRunner().invoke(app, command).stdout


def test_a_log_that_somebody_reads_is_named(data: Path) -> None:
    """While another process reads the catalog, its log cannot be cleared, and the purge says so."""
    with closing(sqlite3.connect(data / CATALOG_FILE)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM papers").fetchone()
        with pytest.raises(StorageError, match="run the same command again"):
            purge(data, "p7", busy_timeout_s=0)
    purge(data, "p7")
    assert [] == places(data)


def test_free_pages_of_the_catalog_are_cleared(data: Path) -> None:
    """A purge also clears text in unused pages of SQLite."""
    purge(data, "p7")
    with closing(sqlite3.connect(data / CATALOG_FILE)) as other:
        other.execute("PRAGMA secure_delete = OFF")
        other.execute("CREATE TABLE filler (text TEXT)")
        other.executemany("INSERT INTO filler VALUES (?)", [(MARK * 100,)] * 50)
        other.commit()
        other.execute("DROP TABLE filler")
        other.commit()
    assert [CATALOG_FILE] == places(data)
    purge(data, "p7")
    assert [] == places(data)


def test_the_command_says_what_it_did(data: Path) -> None:
    """`akin purge` counts versions and generations, and reminds of backups."""
    done = CliRunner().invoke(app, ["purge", "p7", "--data", str(data)])
    assert 0 == done.exit_code
    assert "Removed 3 versions from the catalog and 3 older generations" in " ".join(done.stdout.split())
    assert "Earlier backups" in done.stdout
    assert 1 == CliRunner().invoke(app, ["purge", "--data", str(data)]).exit_code
