"""A collection with one vector per paper: searched and explained as whole papers."""

import pytest
from fastapi.testclient import TestClient

from models.encoder import load_encoder
from service.app import create_app
from service.settings import Settings
from tests.support.answers import explained
from tests.support.builds import DEMO_CORPUS, build_quietly
from tests.support.examples.models.tiny_bert import write_tiny_bert


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """Return a client of a service over ten demo papers with a document encoder."""
    folder = tmp_path_factory.mktemp("document")
    checkpoint = write_tiny_bert(folder / "model")
    (checkpoint / "akin.json").write_text('{"kind": "document"}')
    build_quietly(DEMO_CORPUS, folder / "data", load_encoder(str(checkpoint), device="cpu"), limit=10)
    with TestClient(create_app(Settings(data=folder / "data", device="cpu"))) as client:
        return client


def test_whole_papers_are_compared_and_explained(client: TestClient) -> None:
    """The one alignment names no sentence, the explanation adds up, and the abstract is the match."""
    answer = client.post("/v1/search", json={"query": {"paper_id": "demo:p00-m03"}}).json()
    assert 9 == len(answer["results"])
    assert list(range(len(answer["query"]["sentences"]))) == answer["query"]["selected"]
    for result in answer["results"]:
        (alignment,), (highlight,) = result["alignments"], result["highlights"]
        assert (None, None, 1.0) == (
            alignment["query_sentence"],
            alignment["sentence"],
            alignment["weight"],
        )
        assert result["score"] == pytest.approx(explained(result), abs=1e-9)
        assert (None, 0, len(result["paper"]["abstract"])) == (
            highlight["sentence"],
            highlight["start"],
            highlight["end"],
        )


@pytest.mark.parametrize("aspect", [{"sentences": [0]}, {"facet": "method"}])
def test_sentences_cannot_be_chosen(client: TestClient, aspect: dict[str, object]) -> None:
    """Choosing sentences or a facet in such a collection is a 422 that says why."""
    response = client.post("/v1/search", json={"query": {"paper_id": "demo:p00-m03"}, **aspect})
    assert 422 == response.status_code
    assert "one vector per paper" in response.json()["detail"]
