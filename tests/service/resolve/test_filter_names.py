"""Tests of filters by unknown authors: searches say so and suggest who may be meant."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from indexer.catalog.catalog import Catalog
from indexer.collection.delete import delete_papers
from indexer.files.data_folder import CATALOG_FILE, KEEP
from indexer.snapshot.snapshot import Snapshot
from models.encoder import Encoder
from models.types import Filters
from service.resolve.filter_names import no_such_name
from tests.support.builds import build_quietly, write_corpus
from tests.support.clients import client_of

NAMES = ("Ann Kimura", "Bo Kimura", "Cy Kimura", "Di Kimura", "Zoë Ås")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Iterator[TestClient]:
    """Yield a client of a service over papers of these authors."""
    papers = [
        {"id": f"p{number}", "title": f"Title {number}", "abstract": "We do. It is.", "authors": [name]}
        for number, name in enumerate(NAMES)
    ]
    folder = tmp_path_factory.mktemp("authors")
    build_quietly(write_corpus(folder / "c.jsonl", papers), folder / "data", hashing)
    with client_of(folder / "data") as client:
        yield client


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["zoe as"], "no author is called exactly zoe as; did you mean Zoë Ås? Give full names."),
        (["Kimura"], "did you mean Ann Kimura, Bo Kimura, Cy Kimura or 1 other? Give full names."),
        (["Nobody", "Kim Ann"], "exactly Nobody; did you mean Ann Kimura? Give full names."),
        (["Nobody"], "exactly Nobody; give the full name of another, or leave it out."),
    ],
)
@pytest.mark.parametrize("path", ["search", "recommendations", "sentences/search"])
def test_a_part_of_a_name_is_answered_with_names(
    client: TestClient, path: str, given: Sequence[str], said: str
) -> None:
    """A filter by part of a name, without accents or in another order, is answered with the full names."""
    query = {
        "search": {"query": {"text": "we do"}},
        "recommendations": {"seeds": [{"text": "we do"}]},
        "sentences/search": {"query": {"text": "we do"}},
    }[path]
    answer = client.post(f"/v1/{path}", json={**query, "filters": {"authors": given}}).json()
    assert ([], "filtered_out") == (answer["results"], answer["reason"])
    assert answer["detail"].startswith("No paper matches the filters, because no author is called exactly ")
    assert answer["detail"].endswith(said)


def test_unknown_names_are_looked_for_together(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred unknown names are looked for at once, and only the first few once more for suggestions."""
    looked_up = []
    allowed_papers = Snapshot.allowed_papers

    def counted(snapshot: Snapshot, filters: Filters) -> object:
        looked_up.append(filters)
        return allowed_papers(snapshot, filters)

    monkeypatch.setattr(Snapshot, "allowed_papers", counted)
    snapshot = client.app.state.services.collection.engines.current.snapshot  # type: ignore[attr-defined]  # the client keeps its application
    names = tuple(f"Nobody {number}" for number in range(100))
    assert "exactly Nobody 0; give the full name" in no_such_name(snapshot, Filters(authors=names))
    assert 4 == len(looked_up)
    assert not no_such_name(snapshot, Filters(authors=(*names, "Bo Kimura")))
    assert 5 == len(looked_up)


def test_authors_who_are_there_are_not_doubted(client: TestClient) -> None:
    """An author is not reported as unknown if another filter excludes the papers or another name matches."""
    body = {"query": {"text": "we do"}, "filters": {"authors": ["Ann Kimura"], "year_from": 2000}}
    assert (
        "No paper matches the filters; widen them." == client.post("/v1/search", json=body).json()["detail"]
    )
    body = {"query": {"text": "we do"}, "filters": {"authors": ["Kimura", "ann kimura"]}}
    found = client.post("/v1/search", json=body).json()
    assert (["p0"], None) == ([each["paper"]["id"] for each in found["results"]], found["detail"])


def test_a_collection_without_papers_has_no_authors(tmp_path: Path, hashing: Encoder) -> None:
    """In a collection whose papers are all deleted, an author filter passes nothing and says so."""
    papers = [{"id": "p", "title": "T", "abstract": "We do. It is.", "authors": ["Ann Kimura"]}]
    build_quietly(write_corpus(tmp_path / "c.jsonl", papers), tmp_path / "data", hashing)
    with Catalog.open(tmp_path / "data" / CATALOG_FILE) as catalog:
        delete_papers(tmp_path / "data", ["p"], catalog, keep=KEEP)
    with client_of(tmp_path / "data") as client:
        body = {"query": {"title": "T", "abstract": "We do."}, "filters": {"authors": ["Kimura"]}}
        answer = client.post("/v1/search", json=body)
    assert (200, "filtered_out") == (answer.status_code, answer.json()["reason"])
