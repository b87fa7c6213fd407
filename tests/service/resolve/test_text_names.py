"""Tests of query texts that are the identifier of a paper instead of words, on every interface."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from models.encoder import Encoder
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.clients import client_of
from tests.support.commands import run

KNOWN = [
    ("https://doi.org/10.1000/a", "openalex:W112218234"),
    ("doi.org/10.1000/A", "openalex:W112218234"),
    ("doi: 10.1000/a", "openalex:W112218234"),
    ("openalex:W112218234", "openalex:W112218234"),
    ("https://openalex.org/W112218234", "openalex:W112218234"),
    ("s2:77490025", "s2:77490025"),
    ("CorpusId:77490025", "s2:77490025"),
    ("PMID 19872477", "pmid:19872477"),
    ("arXiv:2106.15928v2", "arxiv:2106.15928"),
    ("2106.15928", "arxiv:2106.15928"),
    ("PMC2323736", "pmcid:PMC2323736"),
]
UNKNOWN = [
    "https://doi.org/10.1000/absent",
    "dx.doi.org/10.1000/absent",
    "10.1000/absent",
    "doi: 10.1000/absent",
    "openalex:W99",
    "s2:99",
    "PMID: 12345678",
    "pmid:12345678",
    "arXiv:2106.99999",
    "PMC99999999",
]
WORDS = [
    "graphs",
    "whales sing, see https://doi.org/10.1000/absent",
    "ACL:reconstruction",
    "ACL:2023",
    "arXiv:GPT-4",
    "DOI:3D",
    "url:3d",
    "note:this",
    "CO2:CH4",
    "COVID-19",
    "3.14159",
    "s2: cells",
    "20200105",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return the folder of a collection whose papers have such ids; one has a DOI."""
    papers = many_papers(len({paper_id for _, paper_id in KNOWN}))
    for paper, paper_id in zip(papers, sorted({paper_id for _, paper_id in KNOWN}), strict=True):
        paper |= {"id": paper_id, **({"doi": "10.1000/a"} if "openalex" in paper_id else {})}
    folder = tmp_path_factory.mktemp("named")
    build_quietly(write_corpus(folder / "papers.jsonl", papers), folder / "data", hashing)
    return folder / "data"


@pytest.fixture(scope="module")
def client(data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over that collection."""
    with client_of(data) as client:
        yield client


@pytest.mark.parametrize(("text", "paper_id"), KNOWN)
def test_an_identifier_as_text_stands_for_its_paper(client: TestClient, text: str, paper_id: str) -> None:
    """A search starts from the paper, as a seed and on the page too; a sentence search names paper_id."""
    answer = client.post("/v1/search", json={"query": {"text": f" {text}\n"}}).json()
    expected = client.post("/v1/search", json={"query": {"paper_id": paper_id}}).json()
    assert (paper_id, expected["results"]) == (answer["query"]["id"], answer["results"])
    assert expected["results"]
    seeded = client.post("/v1/recommendations", json={"seeds": [{"text": text}]}).json()
    assert [paper_id] == [seed["id"] for seed in seeded["seeds"]]
    page = client.get("/", params={"text": text})
    assert (200, True) == (page.status_code, f'name="paper" value="{paper_id}"' in page.text)
    refused = client.post("/v1/sentences/search", json={"query": {"text": text}})
    assert (422, True) == (refused.status_code, "give it as paper_id" in refused.json()["detail"])


@pytest.mark.parametrize("text", UNKNOWN)
def test_an_unknown_identifier_is_not_in_this_collection(client: TestClient, text: str) -> None:
    """It is not searched for as words: the answer says what is missing and what to give instead."""
    for path in ("search", "sentences/search"):
        refused = client.post(f"/v1/{path}", json={"query": {"text": text}})
        assert 404 == refused.status_code
        assert "No paper of this collection has this title, DOI or id" in refused.json()["detail"]
        assert "Give its title and abstract instead." in refused.json()["detail"]
    lost = client.post("/v1/recommendations", json={"seeds": [{"text": text}]}).json()["unresolved"]
    assert ["not_indexed"] == [each["reason"] for each in lost]
    page = client.get("/", params={"text": text})
    assert (404, True) == (page.status_code, "This paper is not in this collection" in page.text)


@pytest.mark.parametrize("text", WORDS)
def test_words_are_no_identifier(client: TestClient, text: str) -> None:
    """A text with other words, or whose only word looks a little like an identifier, is searched for."""
    answer = client.post("/v1/search", json={"query": {"text": text}})
    assert (200, None) == (answer.status_code, answer.json()["query"]["id"])
    assert 200 == client.post("/v1/sentences/search", json={"query": {"text": text}}).status_code
    page = client.get("/", params={"text": text})
    assert (200, True) == (page.status_code, "Papers that say something like" in page.text)


def test_the_command_line_answers_the_same(data: Path) -> None:
    """`akin search --text` starts from the paper, or says that the collection has none."""
    shown = json.loads(run("search", "--text", "doi.org/10.1000/a", "--data", data, "--json"))
    assert "openalex:W112218234" == shown["query"]["id"]
    for command in (("search", "--text"), ("recommend", "--text"), ("sentences",)):
        assert "No paper of this collection" in run(*command, "10.1000/absent", "--data", data, status=1)
