"""Facets and functions in builds: kept, filled in, stored, and computed again only if models change."""

from pathlib import Path

import numpy as np
import pytest

from indexer.catalog.catalog import Catalog
from indexer.collection.growth import Bounds
from indexer.files.data_folder import CATALOG_FILE
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder, load_encoder
from models.errors import EncoderMismatchError, MissingVectorsError
from models.facets import FACETS, NO_FACET
from models.types import Facet
from tests.support.annotators import FirstColumns, KeywordTagger
from tests.support.builds import (
    DEMO_CORPUS,
    Counting,
    build_quietly,
    many_papers,
    paper_in,
    published_files,
    write_corpus,
)
from tests.support.examples.models.tiny_bert import write_tiny_bert

TWENTIES, SEVENS = Bounds(part=20), Bounds(part=7)
OWN = {"id": "own", "title": "t", "abstract": ["Lakes rise.", "We propose a dam."]}
LABELLED = {**OWN, "id": "labelled", "facets": ["result", "background"]}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """Return a tiny random BERT."""
    return load_encoder(str(write_tiny_bert(tmp_path_factory.mktemp("tiny") / "tiny")), device="cpu")


def test_given_facets_are_kept_and_gaps_filled(tmp_path: Path, hashing: Encoder) -> None:
    """The snapshot has the facets of the corpus, or the tagger's if none; the catalog only the former."""
    corpus = write_corpus(tmp_path / "c.jsonl", [LABELLED, OWN])
    build_quietly(corpus, tmp_path, hashing)
    snapshot = open_snapshot(tmp_path)
    with Catalog.open(tmp_path / CATALOG_FILE) as catalog:
        for position, (served, expected) in enumerate(
            [
                ([Facet.RESULT, Facet.BACKGROUND], [Facet.RESULT, Facet.BACKGROUND]),
                ([Facet.BACKGROUND, Facet.METHOD], [None, None]),
            ]
        ):
            paper = snapshot.paper(position)
            assert served == [sentence.facet for sentence in paper.sentences]
            assert expected == [sentence.facet for sentence in paper_in(catalog, paper.id).sentences]
    assert KeywordTagger().spec == snapshot.manifest.tagger
    assert snapshot.manifest.functions is None


def test_every_row_has_its_sentences_facet(tmp_path: Path, tiny: Encoder) -> None:
    """Rows have the facets of their sentences; sentences past the token limit have a facet but no row."""
    long = [f"We show {i} lakes and propose rivers in place of many others." for i in range(60)]
    papers: list[dict[str, object]] = [{"id": "long", "title": "t", "abstract": long}, OWN, LABELLED]
    report = build_quietly(write_corpus(tmp_path / "c.jsonl", papers), tmp_path, tiny)
    assert report.dropped_sentences > 0
    snapshot = open_snapshot(tmp_path)
    expected = []
    for position in range(len(snapshot)):
        facets = [sentence.facet for sentence in snapshot.paper(position).sentences]
        assert None not in facets
        expected += facets[: len(snapshot.vectors(position))]
    assert expected == [FACETS[code] for code in snapshot.row_facets]


def test_rows_of_whole_papers_have_no_facet(tmp_path: Path) -> None:
    """With a document encoder, sentences have facets, rows do not, and there are no function vectors."""
    folder = write_tiny_bert(tmp_path / "tiny")
    (folder / "akin.json").write_text('{"kind": "document"}')
    corpus = write_corpus(tmp_path / "c.jsonl", [OWN])
    build_quietly(corpus, tmp_path / "data", load_encoder(str(folder), device="cpu"))
    snapshot = open_snapshot(tmp_path / "data")
    assert Facet.METHOD is snapshot.paper(0).sentences[1].facet
    assert [NO_FACET] == snapshot.row_facets.tolist()
    with pytest.raises(MissingVectorsError, match="`akin reindex --encoder minilm`"):
        _ = snapshot.function_index


def test_function_vectors_are_stored_beside_the_sentences(tmp_path: Path, tiny: Encoder) -> None:
    """Every row stores its function vector, which the index of functions finds again."""
    functions = FirstColumns(tiny.spec.fingerprint)
    build_quietly(DEMO_CORPUS, tmp_path, tiny, functions=functions, limit=20)
    snapshot = open_snapshot(tmp_path)
    segment, offsets = snapshot.segments[0], snapshot.offsets
    assert functions.spec == snapshot.manifest.functions
    assert (snapshot.manifest.n_rows, 8) == segment.function_vectors.shape
    assert np.float16 == segment.function_vectors.dtype
    (encoded,) = tiny.encode([snapshot.paper(7)], layers=(1,))
    assert encoded.layers is not None
    expected = functions.vectors(encoded.layers)
    np.testing.assert_allclose(segment.function_vectors[offsets[7] : offsets[8]], expected, atol=1e-3)
    found = segment.function_index.search(expected, 1)
    np.testing.assert_allclose(found.scores, 0, atol=2e-3)
    np.testing.assert_allclose(segment.function_vectors[found.rows[:, 0]], expected, atol=2e-3)


def test_another_encoder_of_functions_is_refused(tmp_path: Path, tiny: Encoder) -> None:
    """Function vectors of another model, or none where the snapshot has some, are refused."""
    built = FirstColumns(tiny.spec.fingerprint)
    build_quietly(DEMO_CORPUS, tmp_path / "with", tiny, functions=built, limit=3)
    build_quietly(DEMO_CORPUS, tmp_path / "without", tiny, limit=3)
    snapshot = open_snapshot(tmp_path / "with")
    snapshot.manifest.expect_functions(built.spec)
    open_snapshot(tmp_path / "without").manifest.expect_functions(None)
    with pytest.raises(EncoderMismatchError, match=r"from 'columns' \(.{12}\), not 'other' \(.{12}\)"):
        snapshot.manifest.expect_functions(FirstColumns(tiny.spec.fingerprint, name="other").spec)
    with pytest.raises(EncoderMismatchError, match="none is loaded"):
        snapshot.manifest.expect_functions(None)


def test_an_interrupted_build_with_functions_changes_nothing(tmp_path: Path, tiny: Encoder) -> None:
    """An interrupted build reuses facets and functions of finished parts, and publishes the same bytes."""
    functions = FirstColumns(tiny.spec.fingerprint)
    corpus = write_corpus(tmp_path / "c.jsonl", [*many_papers(38), LABELLED, OWN, *many_papers(50)[38:]])
    build_quietly(corpus, tmp_path / "whole", tiny, functions=functions, bounds=TWENTIES)
    with pytest.raises(KeyboardInterrupt):
        build_quietly(
            corpus, tmp_path / "cut", Counting(tiny, stop_after=40), functions=functions, bounds=TWENTIES
        )
    report = build_quietly(corpus, tmp_path / "cut", tiny, functions=functions, bounds=TWENTIES)
    assert 40 == report.reused_papers
    assert published_files(tmp_path / "whole") == published_files(tmp_path / "cut")
    build_quietly(corpus, tmp_path / "sevens", tiny, functions=functions, bounds=SEVENS)
    assert (
        published_files(tmp_path / "whole")["000001/papers.arrow"]
        == (published_files(tmp_path / "sevens")["000001/papers.arrow"])
    )


@pytest.mark.parametrize("changed", ["tagger", "functions", "no functions"])
def test_parts_of_other_models_are_not_taken_up(tmp_path: Path, tiny: Encoder, changed: str) -> None:
    """After an interruption, another tagger or encoder of functions reuses no part."""
    functions = FirstColumns(tiny.spec.fingerprint)
    with pytest.raises(KeyboardInterrupt):
        build_quietly(
            DEMO_CORPUS,
            tmp_path,
            Counting(tiny, stop_after=50),
            functions=functions,
            limit=60,
            bounds=TWENTIES,
        )
    other = {
        "tagger": functions,
        "functions": FirstColumns(tiny.spec.fingerprint, name="other"),
        "no functions": None,
    }[changed]
    tagger = KeywordTagger("other" if changed == "tagger" else "keywords")
    report = build_quietly(
        DEMO_CORPUS, tmp_path, tiny, tagger=tagger, functions=other, limit=60, bounds=TWENTIES
    )
    assert 0 == report.reused_papers
    assert tagger.spec == report.manifest.tagger
    assert (None if other is None else other.spec) == report.manifest.functions
