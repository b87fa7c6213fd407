"""Tests of the contract of every facet tagger, and of the choice of a tagger for an encoder."""

import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from models import facets
from models.encoder import Encoder
from models.errors import UnknownNameError, WeightsError
from models.facets import FACETS, SHIPPED_WEIGHTS, TAGGERS, FacetTagger, facet_codes, load_tagger, with_facets
from models.registry import resolve
from models.taggers.files import content_of, halved
from models.types import EncodedPaper, Facet, Paper
from tests.support.annotators import KeywordTagger
from tests.support.examples.models.tiny_bert import paper

ABSTRACT = (
    "Sentence vectors carry the topic of their paper.",
    "We propose a method that turns them away from it.",
    "Experiments on two collections show gains of 3 points.",
    "Our code is public.",
)
PAPERS = [
    paper("Transport", *ABSTRACT),
    paper("", "One."),
    paper("Marks", "...", "\x00", "We show that (i) 5 < 6; (ii) 𝔘nicode is fine 🙂!"),
    paper("Long", *(f"Sentence number {i} says a little more about lakes and rivers." for i in range(120))),
]
SHIPPED = sorted(SHIPPED_WEIGHTS.glob("facets-*.safetensors*"))


def shipped_tagger(path: Path) -> FacetTagger:
    """Return the tagger in one of the shipped files."""
    tagger: FacetTagger = resolve(TAGGERS, facets.read_metadata(path)["kind"], "tagger")(path)
    return tagger


def test_every_kind_of_tagger_is_shipped() -> None:
    """The shipped weights have every kind of tagger in the registry."""
    assert set(TAGGERS) == {facets.read_metadata(path)["kind"] for path in SHIPPED}


@pytest.mark.parametrize("path", [None, *SHIPPED], ids=lambda path: path.stem if path else "keywords")
def test_every_tagger_keeps_the_contract(path: Path | None, minilm: Encoder) -> None:
    """Every sentence, even past the token limit, gets probabilities, the same in a batch as alone."""
    tagger = KeywordTagger() if path is None else shipped_tagger(path)
    spec = tagger.spec
    assert isinstance(tagger, FacetTagger)
    assert re.fullmatch(r"[0-9a-f]{64}", spec.fingerprint)
    if spec.encoder not in {None, minilm.spec.fingerprint}:
        pytest.skip(f"{spec.name} reads the layers of an encoder that is not here")
    assert bool(spec.layers) == (spec.encoder is not None)
    encoded = minilm.encode(PAPERS, layers=spec.layers)
    assert encoded[3].dropped_sentences > 0
    tagged = tag(tagger, PAPERS, encoded)
    assert [] == tag(tagger, [], [])
    for given, vectors, own in zip(PAPERS, encoded, tagged, strict=True):
        assert (len(given.sentences), 5) == own.shape
        assert np.float32 == own.dtype
        assert (own >= 0).all()
        np.testing.assert_allclose(own.sum(axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(tag(tagger, [given], [vectors])[0], own, atol=1e-4)


def tag(tagger: FacetTagger, papers: Sequence[Paper], encoded: Sequence[EncodedPaper]) -> list[np.ndarray]:
    """Return a tagger's probabilities, with the layers that it requires."""
    read = [(own.layers, own.openings) for own in encoded if own.layers is not None]
    return tagger.tag(papers, [np.concatenate(pair) for pair in read])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_taggers_know_a_plain_abstract(path: Path, minilm: Encoder) -> None:
    """The first three sentences of a plain abstract are tagged background, method and result."""
    tagger = shipped_tagger(path)
    if tagger.spec.encoder not in {None, minilm.spec.fingerprint}:
        pytest.skip("reads the layers of an encoder that is not here")
    (own,) = tag(tagger, PAPERS[:1], minilm.encode(PAPERS[:1], layers=tagger.spec.layers))
    expected = [Facet.BACKGROUND, Facet.METHOD, Facet.RESULT]
    assert expected == [FACETS[code] for code in own.argmax(axis=1)[:3]]


def test_given_facets_stay() -> None:
    """Only sentences without a facet get the most probable one; the rest of the paper is unchanged."""
    given = PAPERS[0]
    kept = replace(given.sentences[1], facet=Facet.OTHER)
    given = replace(given, year=2020, sentences=(given.sentences[0], kept, *given.sentences[2:]))
    probabilities = np.eye(5, dtype=np.float32)[[2, 2, 3, 1]]
    filled = with_facets(given, probabilities)
    expected = [Facet.METHOD, Facet.OTHER, Facet.RESULT, Facet.OBJECTIVE]
    assert expected == [sentence.facet for sentence in filled.sentences]
    bare = [replace(sentence, facet=None) for sentence in filled.sentences]
    assert [replace(sentence, facet=None) for sentence in given.sentences] == bare
    assert replace(filled, sentences=given.sentences) == given


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[0.5, 0.2, 0.3, 0, 0], [0.2, 0.3, 0.4, 0.1, 0]], [0, 2]),
        ([[0.2, 0.35, 0.4, 0.05, 0], [0.1, 0.1, 0.7, 0.1, 0]], [1, 2]),
        ([[0.3, 0.25, 0.4, 0.05, 0], [0.1, 0.1, 0.2, 0.6, 0]], [0, 3]),
        ([[0.2, 0.2, 0.6, 0, 0], [0, 0.1, 0.1, 0.8, 0]], [2, 3]),
    ],
)
def test_aims_count_as_background_where_there_is_no_other(
    rows: list[list[float]], expected: list[int]
) -> None:
    """If no sentence is background or objective, one gets that facet; others get the most probable."""
    assert expected == facet_codes(np.array(rows, dtype=np.float32)).tolist()


class Named(KeywordTagger):
    """A tagger that is built from a path, like those with weights."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.stem)


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for weights, and register a kind of tagger that stores the name of its file."""
    monkeypatch.setattr(facets, "TAGGERS", {"named": f"{__name__}:Named"})
    return tmp_path


def write_weights(path: Path, *, kind: str = "named", encoder: str | None = None) -> None:
    """Write a safetensors file in which only the metadata matters."""
    description = json.dumps({"kind": kind, "encoder": encoder})
    save_file({"weight": np.zeros(1, dtype=np.float32)}, path, metadata={facets.METADATA: description})


def test_the_tagger_trained_on_the_encoder_is_loaded(weights: Path, hashing: Encoder) -> None:
    """The tagger with the encoder's fingerprint is loaded, or else the one that reads only text."""
    write_weights(weights / "facets-surface.safetensors")
    write_weights(weights / "facets-other.safetensors", encoder="0" * 64)
    assert "facets-surface" == load_tagger(hashing.spec, weights=weights).spec.name
    write_weights(weights / "facets-own.safetensors", encoder=hashing.spec.fingerprint)
    assert "facets-own" == load_tagger(hashing.spec, weights=weights).spec.name


def test_unusable_weights_are_named(weights: Path, hashing: Encoder) -> None:
    """Missing, damaged and unknown weights raise errors that name the file or the kind."""
    with pytest.raises(WeightsError, match=r"facets-surface\.safetensors"):
        load_tagger(hashing.spec, weights=weights)
    (weights / "facets-surface.safetensors").write_bytes(b"no weights")
    with pytest.raises(WeightsError, match=r"facets-surface\.safetensors"):
        load_tagger(hashing.spec, weights=weights)
    write_weights(weights / "facets-surface.safetensors", kind="novel")
    with pytest.raises(UnknownNameError, match="novel"):
        load_tagger(hashing.spec, weights=weights)


def test_gzipped_weights_are_the_same_tagger(tmp_path: Path) -> None:
    """Packed and plain weights have the same spec, and the error for damaged ones names the file."""
    packed = SHIPPED_WEIGHTS / "facets-surface.safetensors.halves.gz"
    content = content_of(packed)
    plain = tmp_path / "facets-surface.safetensors"
    plain.write_bytes(content)
    gzipped = tmp_path / "facets-surface.safetensors.gz"
    gzipped.write_bytes(gzip.compress(content))
    assert facets.read_tagger(plain).spec == facets.read_tagger(packed).spec
    assert facets.read_tagger(plain).spec == facets.read_tagger(gzipped).spec
    assert gzip.decompress(packed.read_bytes()) == halved(content)
    broken = bytearray(packed.read_bytes())
    broken[10:20] = b"\xff" * 10
    for content in (broken, packed.read_bytes()[:-9], b"no archive", gzip.compress(b"\xff" * 20)):
        (tmp_path / packed.name).write_bytes(content)
        with pytest.raises(WeightsError, match=r"facets-surface\.safetensors\.halves\.gz does not"):
            facets.read_tagger(tmp_path / packed.name)
