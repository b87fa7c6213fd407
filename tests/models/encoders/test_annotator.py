"""The annotator: one pass of the encoder for everything that reads its layers."""

from collections.abc import Sequence

import numpy as np
import pytest

from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator, load_annotator
from models.encoder import Encoder, load_encoder
from models.errors import EncoderError
from models.types import EncodedPaper, Facet, Paper
from service.search.aspect import Aspect
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from tests.support.annotators import FirstColumns, KeywordTagger, annotated
from tests.support.builds import Counting
from tests.support.examples.models.tiny_bert import PAPERS, paper, write_tiny_bert


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """Return a tiny random BERT."""
    return load_encoder(str(write_tiny_bert(tmp_path_factory.mktemp("tiny") / "tiny")), device="cpu")


class Watched(Counting):
    """An encoder that records the requested layers."""

    requested: tuple[tuple[int, ...], ...] = ()

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Record the layers, then encode."""
        self.requested += (tuple(layers),)
        return super().encode(papers, layers=layers)


def test_one_pass_serves_every_reader(tiny: Encoder) -> None:
    """The encoder runs once for the union of layers; each reader gets its layers in its order."""
    fingerprint = tiny.spec.fingerprint
    tagger = KeywordTagger(encoder=fingerprint, layers=(2, 1))
    functions = FirstColumns(fingerprint, layers=(0, 2))
    watched = Watched(tiny)
    papers = list(PAPERS.values())
    results = Annotator(watched, tagger=tagger, functions=functions).annotate(papers)
    assert ((0, 1, 2),) == watched.requested
    for own, seen, given in zip(results, tagger.seen, papers, strict=True):
        (alone,) = tiny.encode([given], layers=(0, 1, 2))
        assert alone.layers is not None
        assert own.functions is not None
        assert alone.openings is not None
        expected = np.concatenate([alone.layers[[2, 1]], alone.openings[[2, 1]]])
        np.testing.assert_allclose(expected, seen, atol=1e-5)
        np.testing.assert_allclose(functions.vectors(alone.layers[[0, 2]]), own.functions, atol=1e-5)
        np.testing.assert_allclose(alone.sentences, own.encoded.sentences, atol=1e-5)
        assert (len(given.sentences), 5) == own.probabilities.shape
        assert all(sentence.facet is not None for sentence in own.paper.sentences)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("minilm", ("facets-minilm", "functions-minilm")), ("akin-minilm", ("facets-surface", None))],
)
def test_the_models_that_come_with_akin_fit_minilm_alone(name: str, expected: tuple[str, str | None]) -> None:
    """With akin-minilm, facets come from the tagger of text alone, and no sentence has a function."""
    loaded = load_annotator(name, device="cpu")
    spec = loaded.function_spec
    assert expected == (loaded.tagger.spec.name, None if spec is None else spec.name)


def test_readers_of_the_text_alone_cost_no_layers(tiny: Encoder) -> None:
    """For a tagger without layers, none are requested, and there are no functions."""
    watched = Watched(tiny)
    annotator = Annotator(watched, tagger=KeywordTagger())
    (own,) = annotator.annotate([PAPERS["plain"]])
    assert ((),) == watched.requested
    assert (None, None, None) == (own.encoded.layers, own.functions, annotator.function_spec)
    assert [] == annotator.annotate([])


def test_models_of_another_encoder_are_refused(hashing: Encoder) -> None:
    """A tagger or function encoder trained on another encoder's layers is refused."""
    other = "0" * 64
    with pytest.raises(EncoderError, match="'keywords' reads hidden layers of the encoder 000000000000"):
        Annotator(hashing, tagger=KeywordTagger(encoder=other, layers=(1,)))
    with pytest.raises(EncoderError, match="'columns' reads"):
        Annotator(hashing, tagger=KeywordTagger(), functions=FirstColumns(other))


def test_a_pasted_paper_gets_its_facets(hashed_snapshot: Snapshot, hashing: Encoder) -> None:
    """A pasted paper without labels is tagged, so its facets can be used in a query."""
    engine = SearchEngine(hashed_snapshot, lambda: annotated(hashing), n_candidates=20)
    pasted = paper("Lakes", "Lakes rise.", "We propose a dam.", "We show that it holds.")
    answer = engine.search(SearchQuery((Seed(paper=pasted, aspect=Aspect(facets=(Facet.METHOD,))),), limit=3))
    assert (1,) == answer.seeds[0].selected
    assert 3 == len(answer.results)
    expected = [Facet.BACKGROUND, Facet.METHOD, Facet.RESULT]
    assert expected == [sentence.facet for sentence in answer.seeds[0].paper.sentences]
