"""Tests of vectors over HTTP: of indexed and pasted papers, as numbers and as bytes."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from models.annotator import Annotator
from models.encoder import Encoder
from service.search.engine import SearchEngine
from tests.support.annotators import annotated
from tests.support.clients import client_of, python_client
from tests.support.sentence_engines import Whole, small_engine

PAPER = "demo:p03-m07"


def unpacked(vector: str) -> np.ndarray:
    """Return a vector that was received as base64."""
    return np.frombuffer(base64.b64decode(vector), dtype="<f4")


def test_the_vectors_of_a_paper_are_those_indexed(
    sentence_client: TestClient, sentence_engine: SearchEngine
) -> None:
    """The answer has the stored vector of each sentence, the document's vector and the encoder."""
    answer = sentence_client.get(f"/v1/papers/{PAPER}/vectors").json()
    snapshot = sentence_engine.snapshot
    position = snapshot.position(PAPER)
    paper = snapshot.paper(position)
    rows = np.array([each["vector"] for each in answer["paper"]["sentences"]])
    assert (snapshot.vectors(position) == rows.astype(np.float32)).all()
    texts = [
        answer["paper"]["abstract"][each["start"] : each["end"]] for each in answer["paper"]["sentences"]
    ]
    assert [each.text for each in paper.sentences] == texts
    (encoded,) = sentence_engine.annotator.encoder.encode([paper])
    assert encoded.document.tolist() == answer["paper"]["document"]
    spec = snapshot.manifest.encoder
    assert (spec.fingerprint, spec.dim) == (answer["encoder"]["fingerprint"], answer["encoder"]["dim"])
    assert snapshot.generation == answer["generation"]


def test_base64_holds_the_same_numbers(sentence_client: TestClient) -> None:
    """Base64 vectors are the same numbers as little-endian float32."""
    numbers = sentence_client.get(f"/v1/papers/{PAPER}/vectors").json()["paper"]
    packed = sentence_client.get(f"/v1/papers/{PAPER}/vectors?encoding=base64").json()["paper"]
    assert np.float32(numbers["document"]).tolist() == unpacked(packed["document"]).tolist()
    for one, other in zip(numbers["sentences"], packed["sentences"], strict=True):
        assert np.float32(one["vector"]).tolist() == unpacked(other["vector"]).tolist()


def test_pasted_papers_have_the_vectors_they_would_be_indexed_with(
    sentence_client: TestClient, sentence_engine: SearchEngine
) -> None:
    """Pasted papers, with a title or not, get in order the vectors that indexing would give."""
    paper = sentence_engine.snapshot.paper(sentence_engine.names.position(PAPER))
    body: dict[str, Any] = {
        "papers": [
            {"title": "", "abstract": "Rivers flood. We measure floods."},
            {"title": paper.title, "abstract": [each.text for each in paper.sentences]},
        ],
        "encoding": "base64",
    }
    answer = sentence_client.post("/v1/embed", json=body).json()
    first, second = answer["papers"]
    assert (None, 2) == (first["id"], len(first["sentences"]))
    indexed = sentence_client.get(f"/v1/papers/{PAPER}/vectors?encoding=base64").json()["paper"]
    stored = np.array([unpacked(each["vector"]) for each in indexed["sentences"]])
    found = np.array([unpacked(each["vector"]) for each in second["sentences"]])
    assert np.abs(stored - found).max() < 1e-3  # stored with 16 bits
    assert np.abs(unpacked(indexed["document"]) - unpacked(second["document"])).max() < 1e-6


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"papers": []}, "papers"),
        ({"papers": [{"abstract": "It rains."}] * 33}, "papers"),
        ({"papers": [{"abstract": "It rains."}], "encoding": "hex"}, "encoding"),
        ({"papers": [{"text": "It rains."}]}, "papers.0"),
        (
            {"papers": [{"abstract": ["It rains."] * 501}] * 2},
            "1,002 sentences together; expected at most 1,000",
        ),
    ],
)
def test_what_is_too_much_or_of_another_shape_is_refused(
    sentence_client: TestClient, body: dict[str, Any], message: str
) -> None:
    """Too many papers and malformed bodies get 422 with the name of the field."""
    response = sentence_client.post("/v1/embed", json=body)
    assert (422, True) == (response.status_code, message in response.text)


def test_unknown_papers_and_ids_with_slashes(
    sentence_client: TestClient, sentence_annotator: Annotator, tmp_path: Path
) -> None:
    """An unknown paper is a 404, and a DOI with slashes works as an id."""
    assert 404 == sentence_client.get("/v1/papers/none/vectors").status_code
    papers: list[dict[str, object]] = [{"id": "10.5555/a/b", "title": "Whales", "abstract": "Whales sing."}]
    engine = small_engine(tmp_path, sentence_annotator, papers)
    with client_of(tmp_path / "data", engine) as client:
        answer = client.get("/v1/papers/10.5555/a/b/vectors")
        assert (200, "10.5555/a/b") == (answer.status_code, answer.json()["paper"]["id"])
        assert 200 == client.get("/v1/papers/10.5555/a/b").status_code


def test_an_encoder_of_documents_has_no_sentences(hashing: Encoder, tmp_path: Path) -> None:
    """With one vector per paper, papers have a document vector and no sentences."""
    annotator = annotated(Whole(hashing))
    papers: list[dict[str, object]] = [{"id": "w", "title": "Whales", "abstract": "Whales sing. We listen."}]
    engine = small_engine(tmp_path, annotator, papers)
    with client_of(tmp_path / "data", engine) as client:
        paper = client.get("/v1/papers/w/vectors").json()["paper"]
        (pasted,) = client.post("/v1/embed", json={"papers": [{"abstract": "Whales sing."}]}).json()["papers"]
    assert ([], []) == (paper["sentences"], pasted["sentences"])
    assert engine.snapshot.vectors(0)[0].tolist() == np.float32(paper["document"]).tolist()


def test_the_client_gives_numbers(sentence_client: TestClient) -> None:
    """The Python client returns the numbers of the service."""
    client = python_client(sentence_client)
    expected = sentence_client.get(f"/v1/papers/{PAPER}/vectors").json()["paper"]
    found = client.vectors(PAPER).paper
    assert expected["document"] == list(found.values)
    assert expected["sentences"][0]["vector"] == list(found.sentences[0].values)
    embedded = client.embed([{"abstract": "It rains."}, {"title": "Rain", "abstract": ["It rains."]}])
    assert [1, 1] == [len(paper.sentences) for paper in embedded.papers]
    assert embedded.encoder.dim == len(embedded.papers[1].values)
