"""Tests of exports over HTTP: the format that a request gets, for lists of results and for single papers."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import rispy
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from models.encoder import Encoder
from models.errors import AnswerFormatError
from service.api.formats import LIST_FORMATS, PAPER_FORMATS, Format, negotiate, wants_page
from service.app import create_app
from service.settings import Settings
from tests.support.builds import build_quietly, write_corpus
from tests.support.examples.bibtex import entries, typeset

JSON, CSV, BIBTEX, RIS, NDJSON = LIST_FORMATS
BODY = {"query": {"paper_id": "demo:p03-m07"}, "limit": 3}


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/json", JSON),
        ("text/csv", CSV),
        ("TEXT/CSV; charset=utf-8", CSV),
        ("text/*", CSV),
        ("application/*", JSON),
        ("application/x-bibtex", BIBTEX),
        ("application/x-research-info-systems;q=0.5", RIS),
        ("application/x-ndjson, */*;q=0.1", NDJSON),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", JSON),
        ("text/csv;q=0.5, application/x-bibtex;q=0.9", BIBTEX),
        ("application/json;q=0, */*", CSV),
        ("text/csv;q=0, text/*", None),
        ("image/png", None),
        ("application/json;q=0", None),
        ("text/csv;q=nan", None),
        ("text/csv;q=1.5, application/x-bibtex;q=0.9", BIBTEX),
        ("text/csv;q=x", None),
        (",,;;,=", None),
    ],
)
def test_the_accept_header_chooses(accept: str, expected: Format | None) -> None:
    """The format with the best quality is chosen, specific ranges decide, and JSON is first among equals."""
    if expected is None:
        with pytest.raises(AnswerFormatError, match="application/json, text/csv"):
            negotiate(accept, LIST_FORMATS)
    else:
        assert expected is negotiate(accept, LIST_FORMATS)


def test_a_very_long_accept_header_is_read_in_part() -> None:
    """Only the whole ranges among the first 4,096 characters count: the event loop reads them."""
    many = "a," * 60_000
    assert CSV is negotiate(f"text/csv,{many}application/json", LIST_FORMATS)
    with pytest.raises(AnswerFormatError):
        negotiate(f"{many}text/csv", LIST_FORMATS)
    assert (True, False) == (wants_page(f"text/html,{many}"), wants_page(f"{many}text/html"))
    # Its quality lies behind the last character that is read.
    assert JSON is negotiate(f"application/json;q=0.5,{'a' * 4_064},text/csv;q=0", LIST_FORMATS)


@given(st.text(st.characters(max_codepoint=255), max_size=60) | st.text("*/;=q0.1,aj ", max_size=60))
def test_any_accept_header_is_understood_or_refused(accept: str) -> None:
    """Any Accept header gives a format or an ``AnswerFormatError``."""
    with suppress(AnswerFormatError):
        assert negotiate(accept, PAPER_FORMATS) in PAPER_FORMATS


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus."""
    with TestClient(create_app(Settings(data=hashed_data, device="cpu"))) as client:
        yield client


@pytest.mark.parametrize("form", LIST_FORMATS)
def test_a_result_list_comes_in_every_format(client: TestClient, form: Format) -> None:
    """All formats have the same papers in the same order, and the cursor of the next page."""
    expected = client.post("/v1/search", json=BODY).json()
    response = client.post("/v1/search", json=BODY, headers={"Accept": form})
    assert (200, "Accept") == (response.status_code, response.headers["Vary"])
    assert response.headers["Content-Type"].startswith(form)
    titles = [found["paper"]["title"] for found in expected["results"]]
    if form is JSON:
        assert titles == [found["paper"]["title"] for found in response.json()["results"]]
        return
    assert expected["next_cursor"] == response.headers["X-Akin-Next-Cursor"]
    assert "attachment" in response.headers["Content-Disposition"]
    if form is NDJSON:
        assert expected["results"] == [json.loads(line) for line in response.text.splitlines()]
    elif form is CSV:
        assert titles == [row["title"] for row in csv.DictReader(io.StringIO(response.text, newline=""))]
    elif form is BIBTEX:
        assert titles == [typeset(fields["title"][1:-1]) for fields in entries(response.text).values()]
    else:
        assert titles == [record["title"] for record in rispy.loads(response.text)]


def test_a_file_says_what_was_not_used(client: TestClient) -> None:
    """Headers have the number of seeds and negatives that could not be used, and the codes of warnings."""
    body = {"seeds": ["demo:p03-m07", "nope"], "negatives": ["nope2"], "limit": 3}
    whole = client.post("/v1/recommendations", json=body).json()
    file = client.post("/v1/recommendations", json=body, headers={"Accept": CSV})
    assert ("2", 2) == (file.headers["X-Akin-Unresolved"], len(whole["unresolved"]))
    german = (
        "Wir untersuchen, wie Seile sortiert werden, und zeigen, dass es mit einem neuen Verfahren gelingt."
    )
    pasted = {"query": {"title": "Seile", "abstract": german}}
    codes = [each["code"] for each in client.post("/v1/search", json=pasted).json()["warnings"]]
    file = client.post("/v1/search", json=pasted, headers={"Accept": CSV})
    assert codes
    assert ",".join(codes) == file.headers["X-Akin-Warnings"]
    assert "X-Akin-Unresolved" not in file.headers


def test_ranks_go_on_over_the_pages(client: TestClient) -> None:
    """The second page of a CSV export continues the ranks of the first."""
    headers, ranks, cursor = {"Accept": "text/csv"}, [], None
    for _ in range(2):
        response = client.post(
            "/v1/search", json={**BODY, **({"cursor": cursor} if cursor else {})}, headers=headers
        )
        cursor = response.headers["X-Akin-Next-Cursor"]
        ranks += [row["rank"] for row in csv.DictReader(io.StringIO(response.text, newline=""))]
    assert ["1", "2", "3", "4", "5", "6"] == ranks


def test_an_empty_list_says_why_in_every_format(client: TestClient) -> None:
    """If an empty list is not JSON, a header has the reason."""
    body = {**BODY, "filters": {"year_from": 2090}}
    response = client.post("/v1/search", json=body, headers={"Accept": "text/csv"})
    assert ("filtered_out", 1) == (response.headers["X-Akin-Reason"], len(response.text.splitlines()))


def test_a_format_there_is_not_gets_a_problem(client: TestClient) -> None:
    """An unknown format gets 406 with the available ones, and errors are problems in any format."""
    response = client.post("/v1/search", json=BODY, headers={"Accept": "application/xml"})
    assert (406, "application/problem+json") == (response.status_code, response.headers["Content-Type"])
    assert "text/csv" in response.json()["detail"]
    wrong = client.post("/v1/search", json={}, headers={"Accept": "text/csv"})
    assert (422, "application/problem+json") == (wrong.status_code, wrong.headers["Content-Type"])


@pytest.fixture(scope="module")
def odd_client(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Iterator[TestClient]:
    """Yield a client over papers whose ids look like paths of exports."""
    folder = tmp_path_factory.mktemp("odd")
    ids = ["10.1/x", "10.1/x.bib", "y.ris", "z.bib.bib", "w" * 200, ".bib"]
    papers = [{"id": name, "title": f"Title of {name}", "abstract": ["Text."]} for name in ids]
    build_quietly(write_corpus(folder / "c.jsonl", papers), folder / "data", hashing)
    with TestClient(create_app(Settings(data=folder / "data", device="cpu"))) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "kind", "paper_id"),
    [
        ("10.1/x", "application/json", "10.1/x"),
        ("10.1/x.ris", "application/x-research-info-systems", "10.1/x"),
        ("10.1/x.bib", "application/json", "10.1/x.bib"),
        ("10.1/x.bib.bib", "application/x-bibtex", "10.1/x.bib"),
        ("y.ris", "application/json", "y.ris"),
        ("y.ris.ris", "application/x-research-info-systems", "y.ris"),
        ("z.bib.bib", "application/json", "z.bib.bib"),
        ("w" * 200 + ".bib", "application/x-bibtex", "w" * 200),
        (".bib", "application/json", ".bib"),
        ("z.bib", "application/problem+json", None),
        (".ris", "application/problem+json", None),
        ("nope.bib", "application/problem+json", None),
        ("title of 10.1/x", "application/json", "10.1/x"),
        ("title of 10.1/x.ris", "application/x-research-info-systems", "10.1/x"),
    ],
)
def test_an_exact_id_goes_before_an_export(
    odd_client: TestClient, path: str, kind: str, paper_id: str | None
) -> None:
    """A path's suffix names a format only if no paper has the whole name as its id."""
    response = odd_client.get(f"/v1/papers/{path}")
    assert kind == response.headers["Content-Type"].partition(";")[0]
    assert (404 if paper_id is None else 200) == response.status_code
    if paper_id is not None:
        assert f"Title of {paper_id}" in response.text


def test_a_paper_comes_in_the_format_accepted(odd_client: TestClient) -> None:
    """The Accept header applies to papers whose ids look like exports; single papers have no CSV."""
    bibtex = odd_client.get("/v1/papers/10.1/x.bib", headers={"Accept": "application/x-bibtex"})
    assert (200, "application/x-bibtex; charset=utf-8") == (
        bibtex.status_code,
        bibtex.headers["Content-Type"],
    )
    assert 406 == odd_client.get("/v1/papers/10.1/x", headers={"Accept": "text/csv"}).status_code
    by_name = odd_client.get("/v1/papers/10.1/x.ris", headers={"Accept": "text/plain"})
    assert 200 == by_name.status_code
