"""Tests of the HTTP interface: the answers to searches, and the form of every error."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from models import errors
from models.errors import AkinError
from service import settings
from service.api.errors import status_of
from service.app import create_app
from service.settings import Settings
from tests.support.answers import explained
from tests.support.builds import ROOT
from tests.support.clients import search


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus under the hashing encoder."""
    with TestClient(
        create_app(Settings(data=hashed_data, device="cpu", cache_mib=0)), raise_server_exceptions=False
    ) as client:
        yield client


SOME_PAPER = {"paper_id": "demo:p03-m07"}


@pytest.mark.parametrize("scorer", ["ot", "single", "mean_min", "attention", "exact_ot"])
def test_alignments_sum_to_the_score(client: TestClient, scorer: str) -> None:
    """With every scorer, weights sum to 1, minus the weighted distances is the score, and scores descend."""
    results = search(client, query=SOME_PAPER, scorer=scorer, limit=20)["results"]
    assert 20 == len(results)
    assert sorted((r["score"] for r in results), reverse=True) == [r["score"] for r in results]
    for result in results:
        alignments = result["alignments"]
        assert 1 == pytest.approx(sum(a["weight"] for a in alignments), abs=1e-6)
        assert result["score"] == pytest.approx(explained(result), abs=1e-5)


@pytest.mark.parametrize("scorer", ["ot", "single", "mean_min", "attention", "exact_ot"])
def test_every_result_says_how_exact_it_is(client: TestClient, scorer: str) -> None:
    """The gaps of transport plans are below 1e-4 in units of distance, and 0 for other scorers."""
    results = search(client, query=SOME_PAPER, scorer=scorer, limit=20)["results"]
    gaps = [result["gap"] for result in results]
    assert 0 <= min(gaps) <= max(gaps) < 1e-4
    assert (max(gaps) > 0) == (scorer == "ot") or (scorer == "exact_ot" and max(gaps) < 1e-12)
    pair = {"a": SOME_PAPER, "b": {"paper_id": results[0]["paper"]["id"]}}
    compared = client.post("/v1/compare", json=pair).json()
    assert all(0 < compared[side]["gap"] < 1e-4 for side in "ab")


def test_highlights_are_places_in_the_abstract(client: TestClient) -> None:
    """A highlight has the offsets of its sentence, and the sum of the weights of its alignments."""
    results = search(client, query=SOME_PAPER)["results"]
    assert results
    for result in results:
        paper = result["paper"]
        assert result["highlights"]
        for highlight in result["highlights"]:
            sentence = paper["sentences"][highlight["sentence"]]
            assert (sentence["start"], sentence["end"]) == (highlight["start"], highlight["end"])
            text = paper["abstract"][highlight["start"] : highlight["end"]]
            assert text == text.strip() != ""
            weights = [a["weight"] for a in result["alignments"] if a["sentence"] == highlight["sentence"]]
            assert highlight["weight"] == pytest.approx(sum(weights), abs=1e-6)


def test_a_paper_is_never_akin_to_itself_by_id(client: TestClient) -> None:
    """The query paper is not among its results if given by id, but first if pasted."""
    paper = client.get("/v1/papers/demo:p03-m07").json()["paper"]
    by_id = search(client, query=SOME_PAPER, limit=100)["results"]
    pasted = search(client, query={"title": paper["title"], "abstract": paper["abstract"]}, limit=100)[
        "results"
    ]
    assert "demo:p03-m07" not in [r["paper"]["id"] for r in by_id]
    assert ("demo:p03-m07", 99, 100) == (pasted[0]["paper"]["id"], len(by_id), len(pasted))


def test_chosen_sentences_change_the_ranking(client: TestClient) -> None:
    """Only chosen sentences align, numbered as in the whole abstract, and the choice changes the order."""
    first = search(client, query=SOME_PAPER, sentences=[0])
    last = search(client, query=SOME_PAPER, sentences=[4])
    assert {4} == {a["query_sentence"] for r in last["results"] for a in r["alignments"]}
    assert [r["paper"]["id"] for r in first["results"]] != [r["paper"]["id"] for r in last["results"]]
    assert [4] == last["query"]["selected"]


def test_a_facet_chooses_its_sentences(client: TestClient) -> None:
    """The facet background also selects objective sentences."""
    paper = client.get("/v1/papers/demo:p00-m03").json()["paper"]
    answer = search(client, query={"paper_id": "demo:p00-m03"}, facet="background")
    facets = [sentence["facet"] for sentence in paper["sentences"]]
    assert "objective" in facets
    expected = [i for i, facet in enumerate(facets) if facet in {"background", "objective"}]
    assert expected == answer["query"]["selected"]


def test_an_empty_answer_has_its_reason(client: TestClient) -> None:
    """An empty answer has its reason: filtered out, or no sentence of that facet."""
    assert "filtered_out" == search(client, query=SOME_PAPER, filters={"year_from": 2090})["reason"]
    other = search(client, query={"paper_id": "demo:p00-m03"}, facet="other")
    assert ([], "no_sentence_of_that_facet") == (other["results"], other["reason"])


def test_filters_act_inside_the_search(client: TestClient) -> None:
    """All papers that pass the filter come back, and no others."""
    answer = search(client, query=SOME_PAPER, filters={"year_from": 2015, "year_to": 2016}, limit=100)
    years = [r["paper"]["year"] for r in answer["results"]]
    snapshot = client.app.state.services.collection.engines.current.snapshot  # type: ignore[attr-defined]  # the client keeps its application
    papers = [snapshot.paper(i) for i in range(len(snapshot))]
    passing = [p for p in papers if p.year in {2015, 2016} and p.id != "demo:p03-m07"]
    assert (len(passing), {2015, 2016}) == (len(years), set(years))


def test_the_same_query_gives_the_same_answer(client: TestClient) -> None:
    """Two identical requests differ only in took_ms."""
    answers = [search(client, query=SOME_PAPER) for _ in range(2)]
    for answer in answers:
        del answer["took_ms"]
    assert answers[0] == answers[1]


def test_every_response_names_request_and_generation(client: TestClient) -> None:
    """Every response, errors included, has a request id and the generation."""
    for response in (client.get("/livez"), client.get("/nowhere"), client.post("/v1/search", json={})):
        assert 32 == len(response.headers["X-Request-ID"])
        assert "000001" == response.headers["X-Akin-Generation"]


def test_readiness_says_what_is_served(client: TestClient) -> None:
    """/readyz has the generation, papers and encoder, and nothing degraded."""
    ready = client.get("/readyz").json()
    assert ("ready", [], "000001", 100, "hashing") == tuple(
        ready[key] for key in ("status", "degraded", "generation", "papers", "encoder")
    )


TEXT = {"title": "T", "abstract": "We study floods. We use graphs."}
BAD_REQUESTS: list[tuple[Any, int]] = [
    ({}, 422),
    ({"query": {}}, 422),
    ({"query": {"paper_id": "demo:p03-m07", "abstract": "x"}}, 422),
    ({"query": {"paper_id": "nope"}}, 404),
    ({"query": TEXT, "sentences": [7]}, 422),
    ({"query": TEXT, "sentences": []}, 422),
    ({"query": TEXT, "sentences": [-1]}, 422),
    ({"query": TEXT, "sentences": ["0"]}, 422),
    ({"query": TEXT, "sentences": [10**30]}, 422),
    ({"query": TEXT, "facet": "vibe"}, 422),
    ({"query": TEXT, "facet": "method", "sentences": [0]}, 422),
    ({"query": TEXT, "limit": 101}, 422),
    ({"query": TEXT, "limit": 1.5}, 422),
    ({"query": TEXT, "tau": 0}, 422),
    ({"query": TEXT, "scorer": "magic"}, 422),
    ({"query": TEXT, "surprise": 1}, 422),
    ({"query": {"title": "x" * 2001, "abstract": "y"}}, 422),
    ({"query": {"title": "x", "abstract": " \n "}}, 422),
    ({"query": {"title": "x", "abstract": []}}, 422),
    ({"query": {"title": "x", "abstract": ["a", ""]}}, 422),
    ({"query": {"title": "x", "abstract": "y" * 100_001}}, 422),
    ([], 422),
]


@pytest.mark.parametrize(("body", "status"), BAD_REQUESTS)
def test_a_wrong_request_gets_a_problem(client: TestClient, body: Any, status: int) -> None:
    """A wrong request gets a problem+json of at most 4 kB with a detail."""
    response = client.post("/v1/search", json=body)
    assert (status, "application/problem+json") == (response.status_code, response.headers["content-type"])
    problem = response.json()
    assert problem["type"].startswith("urn:akin:problem:")
    assert problem["detail"]
    assert problem["request_id"] == response.headers["X-Request-ID"]
    assert len(response.content) <= 4096


POISON = [
    b'{"query": {"title": "x", "abstract": "y"}, "tau": NaN}',
    b'{"query": {"title": "x", "abstract": "y"}, "tau": 1e999}',
    b'{"query": {"title": "x", "abstract": "\\ud800"}}',
    b'{"query": {"paper_id": "\\udfff"}}',
    b'{"query": {"title": "x", "abstract": "y"}, "limit": ' + b"9" * 10_000 + b"}",
    b"[" * 100_000,
    b"\xff\xfe",
    b"",
    b"null",
    b'{"query": {"title": "x", "abstract": "y"}, "' + b"k" * 100_000 + b'": 1}',
]


@pytest.mark.parametrize("content", POISON)
def test_poison_gets_a_problem_without_echo(client: TestClient, content: bytes) -> None:
    """Hostile bodies get a 4xx problem of at most 4 kB."""
    response = client.post("/v1/search", content=content, headers={"Content-Type": "application/json"})
    assert 400 <= response.status_code < 500
    assert "application/problem+json" == response.headers["content-type"]
    assert len(response.content) <= 4096


def test_control_characters_are_harmless_text(client: TestClient) -> None:
    """NUL, bidirectional marks and emoji in a pasted abstract are searched like any text."""
    assert search(client, query={"title": "\x00", "abstract": "a\x00b \u202e rtl 🙂 ﷽."})["results"]


@pytest.mark.parametrize("path", ["/v1/papers/nope", "/v1/papers/a%2Fb", "/nowhere", "/v1/search/x"])
def test_what_is_not_there_is_a_problem(client: TestClient, path: str) -> None:
    """An unknown paper or path gets 404 problem+json."""
    response = client.get(path)
    assert (404, "application/problem+json") == (response.status_code, response.headers["content-type"])


@pytest.mark.parametrize(
    ("body", "where", "problem"),
    [
        (
            {"query": SOME_PAPER, "fillters": {}},
            "body",
            "unknown field; did you mean filters? The fields are",
        ),
        ({"query": SOME_PAPER, "filters": {"yearfrom": 2020}}, "body.filters", "did you mean year_from?"),
        ({"query": SOME_PAPER, "filters": {"year": 2020}}, "body.filters", "has no field year; did you mean"),
        (
            {"query": {**SOME_PAPER, "facet": "method"}},
            "body.query",
            "has no field facet, which belongs elsewhere. The fields are paper_id",
        ),
        ({"query": {**SOME_PAPER, "zzz": 1}}, "body.query", "has an unknown field. The fields are paper_id"),
        ({"query": SOME_PAPER, "x" * 100_000: 1}, "body", "has an unknown field. The fields are"),
        ({"query": SOME_PAPER, **{f"x{n}": 1 for n in range(9_000)}}, "body", "has an unknown field."),
        (
            {"query": {"abstract": [" "]}},
            "body.query.abstract",
            "the abstract, or a sentence of it, is blank",
        ),
        ({"query": {"abstract": []}}, "body.query.abstract", "must not be empty"),
        ({"query": SOME_PAPER, "facet": "method", "sentences": [0]}, "body", "give sentences or a facet"),
    ],
)
def test_an_error_names_the_field(
    client: TestClient, body: dict[str, object], where: str, problem: str
) -> None:
    """An error has the field's place and what was expected there; it names a field of another place."""
    answer = client.post("/v1/search", json=body)
    assert 422 == answer.status_code
    errors = [each for each in answer.json()["errors"] if problem in each["problem"]]
    assert [where] == [each["where"] for each in errors]
    assert not [each for each in answer.json()["errors"] if each["where"] != where]
    assert "Value error" not in answer.text
    assert "xxx" not in answer.text
    assert len(answer.content) <= 4096


def test_years_in_the_wrong_order_are_refused(client: TestClient) -> None:
    """Searches and lists refuse a first year after the last instead of finding nothing."""
    years = {"year_from": 2020, "year_to": 2010}
    searched = client.post("/v1/search", json={"query": SOME_PAPER, "filters": years})
    for answer in (searched, client.get("/v1/papers", params=years)):
        assert (422, "The first year, 2020, is after the last, 2010; change one of them.") == (
            answer.status_code,
            answer.json()["detail"],
        )


def test_a_list_without_papers_says_why(client: TestClient) -> None:
    """If filters leave no paper, the list says so, and names a name that no paper has."""
    nothing = client.get("/v1/papers", params={"year_from": 2090}).json()
    assert (0, "No paper matches the filters; widen them.") == (nothing["total"], nothing["detail"])
    unknown = client.get("/v1/papers", params={"venues": "Nowhere"}).json()["detail"]
    assert unknown.startswith("No paper matches the filters, because no venue is called exactly Nowhere; ")
    assert client.get("/v1/papers").json()["detail"] is None


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "is_page"),
    [
        (BROWSER, True),
        ("text/html", True),
        ("TEXT/HTML;q=0.5, application/json;q=0.4", True),
        ("*/*", False),
        ("", False),
        ("text/*", False),
        ("application/json", False),
        ("text/html, application/json", False),
        ("text/html;q=0", False),
        ("image/avif,image/webp,*/*", False),
    ],
)
def test_an_address_that_is_none_gets_a_page_in_a_browser(
    client: TestClient, accept: str, *, is_page: bool
) -> None:
    """Unknown paths give a page to clients that prefer HTML, even without a key, and a problem to others."""
    for address, status in (("127.0.0.1", 404), ("10.0.0.1", 401)):
        # The service that the fixture has started.
        asking = TestClient(client.app, client=(address, 50_000))
        answer = asking.get("/nowhere", headers={"accept": accept})
        assert (status, "Accept") == (answer.status_code, answer.headers["vary"])
        if is_page:
            assert "text/html; charset=utf-8" == answer.headers["content-type"]
            assert 'href="/"' in answer.text
        else:
            assert status == answer.json()["status"]
        # API endpoints answer with a problem, whatever is accepted.
        answer = asking.get("/v1/papers/nope", headers={"accept": accept})
        assert "application/problem+json" == answer.headers["content-type"]


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/results.csv?paper=nope", 404),
        ("/results.zip?paper=nope", 422),
        ("/batch/nope.csv", 404),
        ("/batch/nope.zip", 422),
    ],
)
def test_a_file_that_cannot_be_sent_is_a_page_in_a_browser(
    client: TestClient, address: str, status: int
) -> None:
    """Pages link to these files, so a browser gets a page with the error, and a program a problem."""
    kinds = {BROWSER: "text/html; charset=utf-8", "*/*": "application/problem+json"}
    for accept, kind in kinds.items():
        answer = client.get(address, headers={"accept": accept})
        assert (status, kind, "Accept") == (
            answer.status_code,
            answer.headers["content-type"],
            answer.headers["vary"],
        )


def test_a_wrong_method_says_which_is_right(client: TestClient) -> None:
    """A wrong method gets a 405 problem that names the allowed one."""
    response = client.get("/v1/search")
    assert (405, "application/problem+json", "POST") == (
        response.status_code,
        response.headers["content-type"],
        response.headers["Allow"],
    )


def test_a_fault_of_ours_is_a_problem_too(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error is a 500 problem with the request id and no message of the error."""

    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("service.search.engine.SearchEngine.search", fail)
    response = client.post("/v1/search", json={"query": SOME_PAPER})
    assert (500, "application/problem+json") == (response.status_code, response.headers["content-type"])
    assert "secret" not in response.text
    assert response.json()["request_id"] == response.headers["X-Request-ID"]


def walk(error: type[AkinError]) -> Iterator[type[AkinError]]:
    """Yield an error class and all its subclasses."""
    yield error
    for child in error.__subclasses__():
        yield from walk(child)


@pytest.mark.parametrize("error", [e for e in walk(errors.AkinError) if e is not AkinError])
def test_every_error_has_a_status(error: type[AkinError]) -> None:
    """Every error class has an HTTP status."""
    assert 400 <= status_of(error) < 600


def test_the_tree_drawn_is_the_tree(client: TestClient) -> None:
    """The drawing at the top of models/errors.py has exactly the existing classes."""
    drawn = {word.strip() for word in errors.__doc__.replace("│", " ").split() if word.endswith("Error")}  # type: ignore[union-attr]  # it has one
    assert {cls.__name__ for cls in walk(AkinError)} == drawn


def test_settings_and_their_table_agree() -> None:
    """The tables of settings in the module's docstring and in serving.md list exactly the settings."""
    table = [line for line in settings.__doc__.splitlines() if line.startswith("| `")]  # type: ignore[union-attr]  # it has one
    assert [f"`AKIN_{name.upper()}`" for name in Settings.model_fields] == [
        line.split("|")[1].strip() for line in table
    ]
    page = (ROOT / "docs" / "how-to" / "serving.md").read_text(encoding="utf-8")
    assert table == [line for line in page.splitlines() if line.startswith("| `AKIN_")]


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting with an empty variable, as in compose files, has its default."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"AKIN_{name.upper()}", raising=False)
    usual = Settings()
    for name in Settings.model_fields:
        monkeypatch.setenv(f"AKIN_{name.upper()}", "")
    assert usual == Settings()


def test_the_openapi_document_names_every_route(client: TestClient) -> None:
    """The OpenAPI document lists exactly these routes."""
    paths = client.get("/openapi.json").json()["paths"]
    searching = {
        f"/v1/{name}"
        for name in ("search", "sentences/search", "analyze", "recommendations", "compare", "match", "embed")
    }
    papers = {
        f"/v1/papers{rest}" for rest in ("", "/fetch", "/suggest", "/{paper_id}", "/{paper_id}/vectors")
    }
    of_others = {
        "/graph/v1/paper/batch",
        "/graph/v1/paper/search/match",
        "/graph/v1/paper/{paper_id}",
        "/recommendations/v1/papers/",
        "/recommendations/v1/papers/forpaper/{paper_id}",
    }
    batches = {f"/v1/batches{rest}" for rest in ("", "/{batch_id}", "/{batch_id}/results")}
    of_one = ("", "/new", "/seen", "/feed")
    saved = {"/v1/queries", "/v1/feeds/{token}", *(f"/v1/queries/{{query_id}}{rest}" for rest in of_one)}
    profiles = {"/v1/profiles", "/v1/profiles/{name}"}
    own = {"/livez", "/readyz", "/metrics"}
    assert {*searching, *profiles, *papers, *batches, *saved, *of_others, *own} == set(paths)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (
            "/v1/papers/demo:p03-m07/vectors?encodng=base64",
            "did you mean encoding? Its parameters are: encoding",
        ),
        ("/v1/papers?titel=graphs", "did you mean title?"),
        ("/v1/papers?limit=1&limit=2", "the parameter limit twice"),
        ("/v1/papers/demo:p03-m07?x=1", "unknown parameter. Its parameters are: none"),
        ("/v1/papers/suggest?prefix=a&prefix=b", "the parameter prefix twice"),
    ],
)
def test_parameters_that_a_route_does_not_have_are_refused(
    client: TestClient, address: str, said: str
) -> None:
    """An unknown or repeated parameter is an error that names it, and is never ignored."""
    answer = client.get(address)
    assert 422 == answer.status_code
    assert said in answer.json()["detail"]


def test_lists_may_be_given_as_several_parameters(client: TestClient) -> None:
    """A list in the address is one parameter for each entry."""
    assert 200 == client.get("/v1/papers?has_facets=method&has_facets=result").status_code
    assert 422 == client.post("/v1/search?limit=3", json={"query": {"text": "whales"}}).status_code
