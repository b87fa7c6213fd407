"""Papers that cannot be encoded are quarantined with the reason, and do not delay other papers."""

from collections.abc import Sequence
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from akin.cli.app import app
from indexer.catalog.catalog import Catalog
from indexer.catalog.current import added_after
from indexer.catalog.quarantine import Quarantine, QuarantinedPaper
from indexer.collection import growth
from indexer.collection.changes import PublishedState, differing_papers, publish_pending
from indexer.collection.delete import delete_papers
from indexer.collection.growth import Bounds
from indexer.collection.reindex import prepare, publish_prepared
from indexer.collection.rollback import rollback
from indexer.encoding.arguments import BuildArguments
from indexer.encoding.embed import embed
from indexer.files.data_folder import CATALOG_FILE, KEEP, DataFolder
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.errors import DeadlineError, EncoderError, StorageError, WeightsError
from models.types import Paper, Sentence
from service.app import create_app
from service.settings import Settings
from tests.support.annotators import annotated
from tests.support.builds import Refusing, build_quietly, many_papers, paper_in, quiet, write_corpus
from tests.support.servers.patience import soon

MODELS = "a" * 64


def paper(paper_id: str, text: str = "Whales sing.") -> Paper:
    """Return a paper of one sentence."""
    return Paper(paper_id, "Whales", text, (Sentence(text, 0, len(text)),))


def poison(paper_id: str) -> Paper:
    """Return a paper that ``Refusing`` cannot encode."""
    return paper(paper_id, "POISON sings.")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a folder with a corpus of 20 papers and their collection; treat it as read-only."""
    folder = tmp_path_factory.mktemp("made")
    build_quietly(write_corpus(folder / "c.jsonl", many_papers(20)), folder / "data", hashing)
    return folder


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """Return a copy of the collection, with its corpus next to it."""
    return copytree(made, tmp_path, dirs_exist_ok=True) / "data"


def add(data: Path, papers: Sequence[Paper]) -> None:
    """Add papers to the catalog."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add(papers)


def published_changes(data: Path, encoder: Encoder) -> PublishedState:
    """Bring the served generation in line with the catalog."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        return publish_pending(data, annotated(encoder), catalog, on_progress=quiet, keep=KEEP)


def quarantine(data: Path) -> Quarantine:
    """Return the quarantined papers under the models of the served generation."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        return catalog.quarantine(open_snapshot(data).manifest.models_key, limit=10)


def ids(data: Path) -> set[str]:
    """Return the ids of the served papers."""
    snapshot = open_snapshot(data)
    return {snapshot.paper(int(position)).id for position in snapshot.positions}


def test_the_papers_that_fail_are_found_among_many(hashing: Encoder) -> None:
    """The 2 failing papers of 300 are refused by position; the others keep the vectors they get alone."""
    papers = [poison(f"p{i}") if i in (0, 200) else paper(f"p{i}", f"Whale {i} sings.") for i in range(300)]
    encoder = Refusing(hashing)
    done: list[int] = []
    embedded = embed(papers, annotated(encoder), dtype="float32", on_progress=done.append)
    assert dict.fromkeys((0, 200), "a sequence cannot be encoded") == embedded.refused
    assert (298, 300) == (len(embedded.vectors.offsets) - 1, sum(done))
    whole = embed(papers[1:3], annotated(hashing), dtype="float32", on_progress=done.append)
    assert whole.vectors.rows.tolist() == embedded.vectors.rows[:2].tolist()
    assert encoder.n_given < 300 * 5  # batches are halved, not encoded paper by paper


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, KeyError, TypeError, AssertionError])
def test_an_error_of_any_class_refuses_its_paper_alone(hashing: Encoder, kind: type[Exception]) -> None:
    """An exception of any class refuses only its paper, with the class and the message as the reason."""
    embedded = embed(
        [paper("a"), poison("b"), paper("c")],
        annotated(Refusing(hashing, kind=kind)),
        dtype="float32",
        on_progress=lambda _: None,
    )
    assert [1] == list(embedded.refused)
    assert f"The encoder failed with {kind.__name__}" in embedded.refused[1]
    assert "a sequence cannot be encoded" in embedded.refused[1]


@pytest.mark.parametrize("kind", [MemoryError, OSError, StorageError, DeadlineError, KeyboardInterrupt])
def test_what_is_no_papers_fault_refuses_none(hashing: Encoder, kind: type[BaseException]) -> None:
    """Running out of memory, a failing disk or an interruption ends the encoding with that exception."""
    with pytest.raises(kind, match="a sequence cannot be encoded"):
        embed(
            [paper("a"), poison("b")],
            annotated(Refusing(hashing, kind=kind)),
            dtype="float32",
            on_progress=lambda _: None,
        )


@pytest.mark.parametrize(
    ("value", "dtype", "reason"),
    [
        (1e9, "float16", "float16 cannot hold; index with --dtype float32"),
        (np.nan, "float16", "not finite; check the encoder's weights"),
        (np.inf, "float32", "not finite; check the encoder's weights"),
    ],
)
def test_a_vector_that_is_not_finite_refuses_its_paper_alone(
    hashing: Encoder, monkeypatch: pytest.MonkeyPatch, value: float, dtype: str, reason: str
) -> None:
    """A vector that is not finite, or too large for the type, refuses its paper alone, and says which."""
    encode = hashing.encode

    def overflowing(papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> object:
        encoded = encode(papers, layers=layers)
        for own, one in zip(papers, encoded, strict=True):
            one.sentences[:] = value if "POISON" in own.abstract else one.sentences
        return encoded

    monkeypatch.setattr(hashing, "encode", overflowing)
    embedded = embed([paper("a"), poison("b")], annotated(hashing), dtype=dtype, on_progress=lambda _: None)
    assert [1] == list(embedded.refused)
    assert embedded.refused[1].endswith(reason)


@pytest.mark.parametrize("kind", [EncoderError, RuntimeError])
@pytest.mark.parametrize("word", ["", "We study"])
def test_an_encoder_that_encodes_nothing_fails_as_a_whole(
    hashing: Encoder, word: str, kind: type[Exception]
) -> None:
    """If a plain paper cannot be encoded either, the encoder is at fault and no paper is refused."""
    with pytest.raises(EncoderError, match="a sequence cannot be encoded"):
        embed(
            [paper("a", "We study whales."), paper("b", "We study.")],
            annotated(Refusing(hashing, word, kind=kind)),
            dtype="float32",
            on_progress=lambda _: None,
        )


def test_an_encoder_that_dies_while_papers_are_looked_through_fails_as_a_whole(hashing: Encoder) -> None:
    """If the device fails during the search for the failing paper, no paper is refused."""
    encoder = Refusing(hashing)
    real = encoder.encode

    def dying(papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> object:
        if encoder.n_given > 12:
            encoder.word = ""
        return real(papers, layers=layers)

    encoder.encode = dying  # type: ignore[method-assign, assignment]  # it dies in the middle
    papers = [poison("p0"), *(paper(f"p{i}") for i in range(1, 8))]
    with pytest.raises(EncoderError):
        embed(papers, annotated(encoder), dtype="float32", on_progress=lambda _: None)


def test_missing_weights_are_no_papers_fault(hashing: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A WeightsError ends the encoding at once and refuses no paper."""

    def without(papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> object:
        if len(papers) == 1 and papers[0].id == "probe":
            return real(papers, layers=layers)
        raise WeightsError("the weights are gone")

    real = hashing.encode
    monkeypatch.setattr(hashing, "encode", without)
    with pytest.raises(WeightsError):
        embed([paper("a")], annotated(hashing), dtype="float32", on_progress=lambda _: None)


def test_one_paper_that_fails_keeps_no_other_from_showing(data: Path, hashing: Encoder) -> None:
    """Papers added with a failing one are served at once; the failing one is quarantined and not retried."""
    add(data, [paper("before"), poison("bad"), paper("after")])
    encoder = Refusing(hashing)
    manifest = published_changes(data, encoder).manifest
    assert 22 == manifest.n_papers
    assert {"before", "after"} == ids(data) - {f"p{i}" for i in range(20)}
    stated = quarantine(data)
    assert (1, "bad", "a sequence cannot be encoded") == (
        stated.n_papers,
        stated.first[0].paper_id,
        stated.first[0].reason,
    )
    given = encoder.n_given
    assert manifest == published_changes(data, encoder).manifest
    assert given == encoder.n_given  # not retried


def test_a_paper_that_fails_alone_publishes_nothing(data: Path, hashing: Encoder) -> None:
    """If the only new paper fails, no generation is made, and papers added later are served."""
    add(data, [poison("bad")])
    last = published_changes(data, Refusing(hashing))
    assert (["000001"], 20) == (DataFolder(data).generations(), last.manifest.n_papers)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert catalog.last_change() == last.change
    add(data, [paper("good")])
    assert 21 == published_changes(data, Refusing(hashing)).manifest.n_papers


def test_text_that_can_be_encoded_ends_the_quarantine(data: Path, hashing: Encoder) -> None:
    """A quarantined paper with new text is served, and a deleted one leaves the quarantine."""
    add(data, [poison("bad"), poison("worse")])
    published_changes(data, Refusing(hashing))
    assert 2 == quarantine(data).n_papers
    add(data, [paper("bad")])
    assert 21 == published_changes(data, Refusing(hashing)).manifest.n_papers
    assert ["worse"] == [one.paper_id for one in quarantine(data).first]
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, ["worse"], catalog, keep=KEEP)
    assert Quarantine() == quarantine(data)


def test_a_paper_keeps_its_older_text_until_the_new_one_can_be_encoded(
    data: Path, hashing: Encoder, tmp_path: Path
) -> None:
    """The older version of a paper stays served; a corpus that contains it makes it current again."""
    add(data, [poison("p3")])
    published_changes(data, Refusing(hashing))
    assert 20 == len(ids(data))
    build_quietly(tmp_path / "c.jsonl", data, Refusing(hashing))
    assert Quarantine() == quarantine(data)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert "POISON" not in paper_in(catalog, "p3").abstract


def test_a_paper_that_leaves_the_quarantine_is_pending_until_it_is_shown(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a build that encodes a quarantined paper is killed before it publishes, the next one shows it."""
    add(data, [poison("bad"), paper("good")])
    published_changes(data, Refusing(hashing))
    again = [{"id": "bad", "title": "Whales", "abstract": ["POISON sings."]}]

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("indexer.collection.build.publish_changes", stop)
        with pytest.raises(KeyboardInterrupt):
            build_quietly(write_corpus(data.parent / "bad.jsonl", again), data, hashing)
    assert Quarantine() == quarantine(data)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert {"bad"} == differing_papers(catalog, open_snapshot(data)).keys()
    assert 22 == published_changes(data, hashing).manifest.n_papers


def test_a_corpus_with_a_paper_that_fails_is_indexed_without_it(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build reports a failing paper with the reason and goes on; a later build adds it if it can."""
    alone = Bounds(part=1)  # one part holds only the failing paper
    papers = [*many_papers(3), {"id": "bad", "title": "Bad", "abstract": ["POISON sings."]}]
    corpus, data = write_corpus(tmp_path / "c.jsonl", papers), tmp_path / "data"
    report = build_quietly(corpus, data, Refusing(hashing), bounds=alone)
    assert (3, 0, 0) == (report.manifest.n_papers, report.replaced, report.dropped_sentences)
    assert ["bad"] == [one.paper_id for one in report.quarantined]
    assert 1 == quarantine(data).n_papers
    again = build_quietly(corpus, data, hashing, bounds=alone)
    assert (4, ()) == (again.manifest.n_papers, again.quarantined)
    assert Quarantine() == quarantine(data)
    with Catalog.open(data / CATALOG_FILE) as catalog, catalog.database.reading() as connection:
        (new,) = added_after(connection, report.manifest.change, most=9)
        assert ("bad", again.manifest.change) == (new.paper_id, new.change + 1)


def test_a_collection_begins_with_the_first_portion_that_has_a_paper(
    tmp_path: Path, hashing: Encoder
) -> None:
    """Portions in which no paper can be encoded do not stop a build; their papers are quarantined."""
    bad = [{"id": f"bad{i}", "title": "Bad", "abstract": [f"POISON sings {i}."]} for i in range(3)]
    corpus = write_corpus(tmp_path / "c.jsonl", [*bad[:2], *many_papers(3), bad[2]])
    report = build_quietly(corpus, tmp_path / "data", Refusing(hashing), bounds=Bounds(publish_every=1))
    assert 3 == report.manifest.n_papers
    assert ["bad0", "bad1", "bad2"] == [one.paper_id for one in report.quarantined]
    assert 3 == quarantine(tmp_path / "data").n_papers


def test_a_collection_is_not_begun_with_nothing(tmp_path: Path, hashing: Encoder) -> None:
    """If no paper of a first corpus can be encoded, the build fails and says why."""
    corpus = write_corpus(
        tmp_path / "c.jsonl", [{"id": "bad", "title": "Bad", "abstract": ["POISON sings."]}]
    )
    with pytest.raises(EncoderError, match="None of 1 paper could"):
        build_quietly(corpus, tmp_path / "data", Refusing(hashing))
    assert not (tmp_path / "data" / "CURRENT").exists()


def test_a_reindex_leaves_out_what_it_cannot_encode(data: Path, hashing: Encoder) -> None:
    """A reindex leaves out papers it cannot encode; one with an encoder that can brings them back."""
    add(data, [poison("bad")])
    published_changes(data, hashing)
    arguments, before = BuildArguments(encoder="hashing", device="cpu", dtype="float32"), []
    for encoder, n_papers in ((Refusing(hashing), 20), (hashing, 21)):
        models = annotated(encoder)
        with Catalog.open(data / CATALOG_FILE) as catalog:
            prepared = prepare(data, models, catalog, arguments=arguments, on_progress=quiet)
            before.append(catalog.quarantine(prepared.snapshot.manifest.models_key, limit=1).n_papers)
            manifest = publish_prepared(data, prepared, models, catalog, keep=KEEP)
        assert n_papers == manifest.n_papers
        assert 21 - n_papers == quarantine(data).n_papers == len(prepared.quarantined)
    assert [0, 1] == before  # preparing does not change the served generation


def test_a_paper_that_other_models_can_encode_is_new_once(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A re-index with other models that shows a refused paper adds it, and correcting it later does not."""

    def news(since: int) -> list[str]:
        with Catalog.open(data / CATALOG_FILE) as catalog, catalog.database.reading() as connection:
            return [paper.paper_id for paper in added_after(connection, since, most=9)]

    add(data, [poison("bad")])
    published_changes(data, Refusing(hashing))
    add(data, [paper("good")])
    stated = [published_changes(data, Refusing(hashing)).manifest.change]
    arguments = BuildArguments(encoder="hashing", device="cpu", dtype="float32")
    with Catalog.open(data / CATALOG_FILE) as catalog:
        prepared = prepare(data, annotated(hashing), catalog, arguments=arguments, on_progress=quiet)
        catalog.add([paper("late")])  # which the re-index encodes before it takes the lock
        encode = growth.encode_versions

        def meanwhile(*given: Any, **named: Any) -> Any:
            stated.append(published_changes(data, Refusing(hashing)).manifest.change)
            return encode(*given, **named)

        with monkeypatch.context() as patched:
            patched.setattr(growth, "encode_versions", meanwhile)
            done = publish_prepared(data, prepared, annotated(hashing), catalog, keep=KEEP)
        assert catalog.last_change() == done.change
    assert ("bad" in ids(data), ["bad"]) == (True, news(stated[-1]))
    add(data, [paper("bad", "A corrected POISON.")])
    assert ("bad" in ids(data), []) == (True, news(published_changes(data, hashing).manifest.change - 1))


def test_going_back_to_models_that_refused_a_paper_keeps_it(data: Path, hashing: Encoder) -> None:
    """A rollback to the models that refused a paper does not delete it: it is in the quarantine again."""
    add(data, [poison("bad")])
    older = published_changes(data, Refusing(hashing)).manifest.generation
    arguments = BuildArguments(encoder="hashing", device="cpu", dtype="float32")
    with Catalog.open(data / CATALOG_FILE) as catalog:
        prepared = prepare(data, annotated(hashing), catalog, arguments=arguments, on_progress=quiet)
        publish_prepared(data, prepared, annotated(hashing), catalog, keep=KEEP)
        catalog.add([paper("later")])
        published_changes(data, hashing)
        assert 1 == rollback(data, older, catalog=catalog).n_removed
        assert ["bad"] == [*catalog.current_hashes(["bad", "later"])]
    assert (1, "bad" in ids(data)) == (quarantine(data).n_papers, False)


def test_a_replaced_corpus_with_other_models_has_news(data: Path, hashing: Encoder) -> None:
    """Also if ``akin index --replace`` brings the models that can encode it, a refused paper is new."""
    bad: dict[str, object] = {"id": "bad", "title": "Bad", "abstract": ["POISON sings."]}
    corpus = write_corpus(data.parent / "c.jsonl", [*many_papers(20), bad])
    build_quietly(corpus, data, Refusing(hashing))
    corpus = write_corpus(data.parent / "c.jsonl", [*many_papers(21), bad])
    seen = build_quietly(corpus, data, Refusing(hashing)).manifest.change
    replaced = build_quietly(corpus, data, hashing, replace=True, dtype="float32").manifest
    with Catalog.open(data / CATALOG_FILE) as catalog, catalog.database.reading() as connection:
        assert ["bad"] == [one.paper_id for one in added_after(connection, seen, most=9)]
        assert replaced.change == catalog.last_change()


def test_a_reindex_keeps_the_older_text_where_the_new_one_cannot_be_encoded(
    data: Path, hashing: Encoder
) -> None:
    """If a paper's text changes during a reindex and cannot be encoded, the encoded version is published."""
    arguments, models = BuildArguments(encoder="hashing", device="cpu", dtype="float32"), Refusing(hashing)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        prepared = prepare(data, annotated(models), catalog, arguments=arguments, on_progress=quiet)
        catalog.add([poison("p3"), paper("new")])
        publish_prepared(data, prepared, annotated(models), catalog, keep=KEEP)
    snapshot = open_snapshot(data)
    assert 21 == len(snapshot)
    assert "POISON" not in snapshot.paper(snapshot.position("p3")).abstract
    assert 1 == quarantine(data).n_papers


def test_the_catalog_keeps_reasons_by_models(catalog_place: str | Path) -> None:
    """The catalog stores refused current versions by models key until they are encoded or deleted."""
    with Catalog.open(catalog_place) as catalog:
        catalog.add([paper("a"), paper("b"), paper("c")])
        hashes = {key: str(digest) for key, digest in catalog.changed_since(0).items()}
        refused = [QuarantinedPaper(key, hashes[key], "x" * 5_000) for key in ("a", "b")]
        unknown = QuarantinedPaper("d", "0" * 64, "not there")
        for _ in range(2):
            catalog.note_encoding(MODELS, [], [*refused, unknown])
        assert {hashes["a"]: "a", hashes["b"]: "b"} == catalog.refused(MODELS)
        assert {} == catalog.refused("b" * 64)
        stated = catalog.quarantine(MODELS, limit=1)
        assert (2, ["a"], 1_000) == (
            stated.n_papers,
            [one.paper_id for one in stated.first],
            len(stated.first[0].reason),
        )
        catalog.note_encoding("b" * 64, [hashes["a"]], [])
        assert 2 == catalog.quarantine(MODELS, limit=1).n_papers
        assert 3 == catalog.note_encoding(MODELS, [hashes["a"], hashes["c"]], [])
        assert {hashes["b"]: "b"} == catalog.refused(MODELS)
        assert {"a": hashes["a"]} == catalog.changed_since(1)  # pending until a generation shows it
        assert catalog.note_encoding(MODELS, [hashes["a"]], []) is None  # it has left already
        with catalog.database.reading() as connection:
            assert [("a", 2)] == [(new.paper_id, new.change) for new in added_after(connection, 1, most=9)]
        catalog.restore({"b": None}, at=1)
        assert {} == catalog.refused(MODELS)


def test_a_service_says_what_is_in_quarantine(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/readyz` reports the number of quarantined papers, not their ids, until all of them can be encoded."""
    refusing = Refusing(SimpleNamespace(spec=hashing.spec, encode=hashing.encode))
    monkeypatch.setattr(hashing, "encode", refusing.encode)
    monkeypatch.setattr("service.collection.generations.load_annotator", lambda *_, **__: annotated(hashing))
    with TestClient(create_app(Settings(data=data, encoder="hashing", device="cpu"))) as client:
        add(data, [poison(f"bad{i}") for i in range(5)] + [paper("good")])
        soon(lambda: client.get("/readyz").json()["papers"] == 21)
        soon(lambda: bool(client.get("/readyz").json()["degraded"]))
        (degraded,) = client.get("/readyz").json()["degraded"]
        assert "quarantine" == degraded["part"]
        assert "5 papers" in degraded["detail"]
        assert "bad" not in str(degraded)
        add(data, [paper(f"bad{i}") for i in range(5)])
        soon(lambda: client.get("/readyz").json()["papers"] == 26)
        soon(lambda: client.get("/readyz").json()["degraded"] == [])


def test_the_command_names_what_it_could_not_encode(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`akin index` prints the quarantined ids with the reasons, and succeeds."""
    monkeypatch.setattr(
        "indexer.encoding.arguments.load_annotator", lambda *_, **__: annotated(Refusing(hashing))
    )
    bad = [{"id": f"bad{i:02d}", "title": "B", "abstract": [f"POISON sings {i}."]} for i in range(12)]
    corpus = write_corpus(tmp_path / "c.jsonl", [*many_papers(3), *bad])
    done = CliRunner().invoke(
        app, ["index", str(corpus), "--data", str(tmp_path / "data"), "--encoder", "hashing"]
    )
    assert 0 == done.exit_code
    assert "bad00: a sequence cannot be encoded" in done.stderr
    assert "... and 2 more" in done.stderr
    assert "Indexed 3 papers" in done.stdout
