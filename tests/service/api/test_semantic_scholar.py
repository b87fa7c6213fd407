"""Tests of Semantic Scholar's routes with its Python package, and of their errors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from semanticscholar import SemanticScholar
from semanticscholar.Paper import Paper
from semanticscholar.SemanticScholarException import BadQueryParametersException, ObjectNotFoundException

from indexer.files.data_folder import CATALOG_FILE
from models.encoder import Encoder
from models.errors import OverloadedError
from service.access.api_keys import Keys, Scope
from service.app import create_app
from service.search.engine import SearchEngine
from service.search.query import SearchAnswer, SearchQuery
from service.settings import Settings
from tests.support.annotators import annotated
from tests.support.builds import many_papers
from tests.support.sentence_engines import small_engine
from tests.support.servers.loopback import served

NAMED: dict[str, dict[str, object]] = {
    "arxiv:2106.15928": {"doi": "10.1093/Mind/LIX.236.433", "authors": ["Ada Lovelace"]},
    "s2:77490025": {"venue": "Mind", "fields": ["Philosophy", "Logic"]},
    "acl:P18-1001": {"url": "https://aclanthology.org/P18-1001/"},
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> SearchEngine:
    """Return an engine over 150 papers, some with ids of other registers."""
    papers = many_papers(150)
    for paper, (name, known) in zip(papers, NAMED.items(), strict=False):
        paper |= {"id": name, **known}
    return small_engine(tmp_path_factory.mktemp("scholar"), annotated(hashing), papers)


@pytest.fixture(scope="module")
def address(engine: SearchEngine) -> Iterator[str]:
    """Yield the address of the service."""
    with served(create_app(Settings(), engine)) as address:
        yield address


@pytest.fixture(scope="module")
def scholar(address: str) -> SemanticScholar:
    """Return the unchanged package with our address as its base URL."""
    return SemanticScholar(api_url=address, retry=False)


@pytest.fixture(scope="module")
def client(engine: SearchEngine) -> Iterator[TestClient]:
    """Yield a client of the service."""
    with TestClient(create_app(Settings(), engine), raise_server_exceptions=False) as client:
        yield client


def ids(papers: list[Paper]) -> list[str]:
    """Return the ids of the papers in this collection."""
    return [paper.paperId for paper in papers]


@pytest.mark.parametrize("name", ["arxiv:2106.15928", "ARXIV:2106.15928v2", "DOI:10.1093/mind/lix.236.433"])
def test_the_package_gets_recommendations_for_one_paper(
    scholar: SemanticScholar, client: TestClient, name: str
) -> None:
    """A paper under any of its names gets the results of /v1/search, without the paper itself."""
    found = scholar.get_recommended_papers(name, limit=20)
    body = {"query": {"paper_id": "arxiv:2106.15928"}, "limit": 20}
    expected = [each["paper"]["id"] for each in client.post("/v1/search", json=body).json()["results"]]
    assert expected == ids(found)
    assert 20 == len(found)
    assert all(paper.title and paper.abstract and paper.year for paper in found)


def test_the_package_gets_recommendations_for_lists(scholar: SemanticScholar, client: TestClient) -> None:
    """Lists of positive and negative papers under any names get the results of /v1/recommendations."""
    positive, negative = ["ARXIV:2106.15928", "acl:P18-1001", "p9"], ["CorpusId:77490025", "p11"]
    found = scholar.get_recommended_papers_from_lists(positive, negative, limit=20)
    body: dict[str, Any] = {"seeds": [{"paper_id": name} for name in positive], "limit": 20}
    liked = client.post("/v1/recommendations", json=body).json()["results"]
    body["negatives"] = [{"paper_id": name} for name in negative]
    expected = client.post("/v1/recommendations", json=body).json()["results"]
    assert [each["paper"]["id"] for each in expected] == ids(found)
    assert [each["paper"]["id"] for each in liked] != ids(found)
    assert not {"arxiv:2106.15928", "acl:P18-1001", "p9", "s2:77490025", "p11"} & set(ids(found))
    alone = scholar.get_recommended_papers_from_lists(positive, limit=20)
    assert [each["paper"]["id"] for each in liked] == ids(alone)


def test_names_of_no_paper_are_left_out_of_lists(scholar: SemanticScholar, client: TestClient) -> None:
    """Unknown papers in lists are ignored and their places returned; without a known positive it is a 404."""
    body = {"positivePaperIds": ["nobody", "p9"], "negativePaperIds": ["p8", "PMID:1"]}
    for path in ("/recommendations/v1/papers/", "/recommendations/v1/papers"):
        answer = client.post(f"{path}?limit=3", json=body).json()
        assert {"positivePaperIds": [0], "negativePaperIds": [1]} == answer["unresolved"]
        assert 3 == len(answer["recommendedPapers"])
    known = {"positivePaperIds": ["p9"], "negativePaperIds": None}
    assert {"recommendedPapers"} == client.post("/recommendations/v1/papers/", json=known).json().keys()
    with pytest.raises(ObjectNotFoundException, match="any of the positive ids"):
        scholar.get_recommended_papers_from_lists(["nobody", "DOI:10.1/none"], ["p9"])


def test_a_hundred_recommendations_by_default(scholar: SemanticScholar) -> None:
    """The default is 100 recommendations and 500 the maximum; a small collection gives all papers."""
    assert 100 == len(scholar.get_recommended_papers("p7"))
    assert 149 == len(scholar.get_recommended_papers("p7", limit=500, pool_from="all-cs"))


def test_the_package_looks_papers_up(scholar: SemanticScholar) -> None:
    """Papers come with all fields of the collection, and null or empty lists for others."""
    paper = scholar.get_paper("10.1093/mind/lix.236.433")
    assert ("arxiv:2106.15928", "Ada Lovelace") == (paper.paperId, paper.authors[0].name)
    assert {"DOI": "10.1093/Mind/LIX.236.433", "ArXiv": "2106.15928"} == paper.externalIds
    assert (None, []) == (paper.citationCount, paper.references)
    found, missing = scholar.get_papers(["CorpusId:77490025", "PMID:1", "p9"], return_not_found=True)
    assert ["s2:77490025", "p9"] == ids(found)
    assert ["PMID:1"] == missing
    assert (77490025, "Mind", ["Philosophy", "Logic"]) == (
        found[0].corpusId,
        found[0].venue,
        found[0].fieldsOfStudy,
    )


def test_the_package_matches_a_title(scholar: SemanticScholar, client: TestClient) -> None:
    """A title with a typing error finds its paper; an unlike one raises the package's usual error."""
    title = client.get("/v1/papers/p9").json()["paper"]["title"]
    slip = title.replace("e", "a", 1)
    assert title != slip
    found = scholar.search_paper(slip, match_title=True)
    assert ("p9", title) == (found.paperId, found.title)
    answer = client.get("/graph/v1/paper/search/match", params={"query": title, "fields": "year"}).json()
    assert [("p9", 1.0)] == [(paper["paperId"], paper["matchScore"]) for paper in answer["data"]]
    with pytest.raises(ObjectNotFoundException, match="Title match not found"):
        scholar.search_paper("zzzz qqqq", match_title=True)


def test_only_the_requested_fields(client: TestClient) -> None:
    """Papers have the requested fields and paperId, or paperId and title by default."""
    by_default = client.get("/graph/v1/paper/p7").json()
    assert {"paperId", "title"} == by_default.keys()
    some = client.get("/graph/v1/paper/p7?fields=year,authors.name,authors.hIndex,citationCount").json()
    assert {"paperId", "year", "authors", "citationCount"} == some.keys()
    recommended = client.get("/recommendations/v1/papers/forpaper/p7?fields=url&limit=1").json()
    assert [{"paperId", "url"}] == [paper.keys() for paper in recommended["recommendedPapers"]]


def test_the_package_raises_its_own_errors(scholar: SemanticScholar) -> None:
    """An unknown paper and an unknown field raise the package's usual errors with our messages."""
    with pytest.raises(ObjectNotFoundException, match="No paper of this collection"):
        scholar.get_recommended_papers("DOI:10.1/none")
    with pytest.raises(ObjectNotFoundException, match="No paper of this collection"):
        scholar.get_paper("nobody")
    with pytest.raises(BadQueryParametersException, match="fields: name 2 is not a field of papers"):
        scholar.get_recommended_papers("p7", fields=["title", "garbage"])


WRONG: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/recommendations/v1/papers/forpaper/p7?limit=501", {}),
    ("GET", "/recommendations/v1/papers/forpaper/p7?limit=x", {}),
    ("GET", "/recommendations/v1/papers/forpaper/p7?from=all", {}),
    ("GET", "/graph/v1/paper/p7?fields=secret.sauce", {}),
    ("GET", "/graph/v1/paper/search/match", {}),
    ("GET", "/graph/v1/paper/search/match?query=%21%21", {}),
    ("POST", "/graph/v1/paper/batch", {"json": {"ids": []}}),
    ("POST", "/graph/v1/paper/batch", {"json": {"ids": ["p7"] * 501}}),
    ("POST", "/graph/v1/paper/batch", {"json": {"names": ["p7"]}}),
    ("POST", "/recommendations/v1/papers/", {"json": {"positivePaperIds": []}}),
    ("POST", "/recommendations/v1/papers/", {"json": {"positivePaperIds": ["p7", 7]}}),
    ("POST", "/recommendations/v1/papers/", {"json": {"positivePaperIds": ["p"], "secret": ["p"]}}),
    (
        "POST",
        "/recommendations/v1/papers/",
        {"json": {"positivePaperIds": ["p7"] * 300, "negativePaperIds": ["p8"] * 201}},
    ),
    ("POST", "/graph/v1/paper/batch", {"content": b'{"ids": ["\\ud800"], "x": NaN'}),
]


@pytest.mark.parametrize(("method", "path", "body"), WRONG)
def test_a_wrong_request_is_a_400_in_both_shapes(
    client: TestClient, method: str, path: str, body: dict[str, Any]
) -> None:
    """A wrong request gets 400 and a problem, with the detail also in `error` and `message`."""
    answer = client.request(method, path, **body)
    problem = answer.json()
    assert (400, "application/problem+json") == (answer.status_code, answer.headers["content-type"])
    assert 400 == problem["status"]
    assert problem["detail"] == problem["error"] == problem["message"]
    assert "secret" not in answer.text


def test_the_package_sends_its_key(engine: SearchEngine, tmp_path: Path) -> None:
    """The package sends a key of ours, and without a key raises its usual error."""
    with Keys.open(tmp_path / CATALOG_FILE) as keys:
        token = keys.create("someone", scope=Scope.READ, expires_days=1).token
    with served(create_app(Settings(data=tmp_path), engine)) as address:
        known = SemanticScholar(api_url=address, api_key=token, retry=False)
        assert 3 == len(known.get_recommended_papers("p7", limit=3))
        with pytest.raises(PermissionError, match="403"):
            SemanticScholar(api_url=address, retry=False).get_recommended_papers("p7")


def test_what_may_pass_is_a_429(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors that are 503 on other routes are 429 with Retry-After here, which these clients retry."""

    def busy(engine: SearchEngine, query: SearchQuery) -> SearchAnswer:
        raise OverloadedError("Too much is asked for.", retry_after_s=7)

    monkeypatch.setattr(SearchEngine, "search", busy)
    answer = client.get("/recommendations/v1/papers/forpaper/p7")
    assert (429, "7", 429) == (answer.status_code, answer.headers["retry-after"], answer.json()["status"])


def test_other_routes_keep_their_statuses(client: TestClient) -> None:
    """Other routes keep status 422 and have no `error` field."""
    problem = client.post("/v1/search", json={}).json()
    assert (422, False) == (problem["status"], "error" in problem)


def test_ids_that_cannot_be_names_are_not_found(client: TestClient) -> None:
    """Surrogates, dots and malformed names are 404 as other unknown names; NUL in the path is a 400."""
    assert 400 == client.get("/graph/v1/paper/%00").status_code
    for name in ("..%2f..%2fetc%2fpasswd", "URL:http://[", "%F0%9F", "DOI:", "p7/citations", "search"):
        assert 404 == client.get(f"/graph/v1/paper/{name}").status_code, name
    names = ["\x00", "DOI:", "URL:http://[", "a" * 300]
    assert [None] * 4 == client.post("/graph/v1/paper/batch", json={"ids": names}).json()
