"""Tests of the analysis of a pasted abstract into sentences and facets, over HTTP and as a command."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from akin.cli.app import app
from indexer.snapshot.opening import open_snapshot
from models.annotator import Annotator
from models.encoder import Encoder
from models.facets import FACETS, SHIPPED_WEIGHTS
from models.types import EncodedPaper, EncoderSpec, Facet, Paper, Sentence
from service.api.schemas.search.sentences import AnalyzeOut
from service.app import create_app
from service.resolve.analysis import Analysis
from service.search.engine import SearchEngine
from service.settings import Settings
from tests.support.annotators import KeywordTagger
from tests.support.answers import warned
from tests.support.examples.pages import page_at, query_of


class ShortSighted:
    """An encoder that reads only the first two sentences of a paper with another encoder."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    @property
    def spec(self) -> EncoderSpec:
        """The spec of the wrapped encoder."""
        return self._encoder.spec

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode with the wrapped encoder, and drop the sentences after the second."""
        encoded = self._encoder.encode(papers, layers=layers)
        return [
            EncodedPaper(each.sentences[:2], each.document, max(0, len(each.sentences) - 2))
            for each in encoded
        ]


@pytest.fixture(scope="module")
def annotator(hashing: Encoder) -> Annotator:
    """Return an annotator with facets by keywords, and an encoder that reads two sentences."""
    return Annotator(ShortSighted(hashing), tagger=KeywordTagger())


@pytest.fixture(scope="module")
def client(hashed_data: Path, annotator: Annotator) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus under the hashing encoder."""
    engine = SearchEngine(open_snapshot(hashed_data), lambda: annotator, n_candidates=200)
    with TestClient(create_app(Settings(), engine), raise_server_exceptions=False) as client:
        yield client


ABSTRACT = "Floods are frequent. We propose a gauge. The results show a gain.\nThe code is public."


def analyzed(client: TestClient, **body: Any) -> dict[str, Any]:
    """Return the answer to a request that must succeed."""
    response = client.post("/v1/analyze", json=body)
    assert 200 == response.status_code, response.text
    assert "000001" == response.headers["X-Akin-Generation"]
    answer: dict[str, Any] = response.json()
    return answer


def test_a_text_gets_sentences_with_places_and_facets(client: TestClient) -> None:
    """Sentences have text, offsets, facet and probabilities, and the answer names its tagger."""
    answer = analyzed(client, title="Floods", abstract=ABSTRACT)
    sentences = answer["sentences"]
    assert ["background", "method", "result", "other"] == [each["facet"] for each in sentences]
    assert ("Floods", ABSTRACT) == (answer["title"], answer["abstract"])
    assert [each["text"] for each in sentences] == [ABSTRACT[s["start"] : s["end"]] for s in sentences]
    assert {"background": 0.1, "objective": 0.1, "method": 0.6, "result": 0.1, "other": 0.1} == sentences[1][
        "probabilities"
    ]
    assert ("keywords", []) == (answer["tagger"], answer["warnings"])


def test_given_sentences_stay_as_they_are(client: TestClient) -> None:
    """A list of sentences is not split again; offsets refer to the joined abstract."""
    answer = analyzed(client, abstract=["Floods are frequent. We propose a gauge. ", "The code is public."])
    assert "Floods are frequent. We propose a gauge. The code is public." == answer["abstract"]
    assert [(0, 40), (41, 60)] == [(each["start"], each["end"]) for each in answer["sentences"]]


def test_sentences_past_the_limit_are_counted_and_tagged(client: TestClient) -> None:
    """Sentences that the encoder did not read are counted and still in the answer."""
    answer = analyzed(client, abstract=ABSTRACT)
    assert (4, 2) == (len(answer["sentences"]), answer["dropped_sentences"])


def test_a_facet_stays_chosen_where_not_all_of_it_is_read(client: TestClient) -> None:
    """A form cannot send the box of a sentence that was not read; the facet still stays the facet."""
    text = quote_plus("We propose a gauge. Floods are frequent. We propose one more.")
    page = page_at(client, f"/?title=T&abstract={text}&facet=method&s=0&n=20")
    kept = query_of(page.all("a", class_="stays")[0]["href"])
    assert ((Facet.METHOD,), ()) == (kept.facets, kept.sentences)


def test_a_foreign_abstract_gets_a_warning(client: TestClient) -> None:
    """An abstract that does not look English is analyzed with a warning."""
    text = "Nous présentons un modèle pour la prévision des crues. Les résultats sont très encourageants."
    assert [("abstract_not_english", ["fr"])] == warned(analyzed(client, abstract=text))


def test_a_text_of_too_many_sentences_is_cut_with_a_warning(client: TestClient) -> None:
    """Only the first 1,000 of 1,003 sentences are read, and every route that takes a paper warns of it."""
    text = "We fit a model. " * 1_003
    answer = analyzed(client, abstract=text)
    assert (1_000, [("sentences_cut", ["3"])]) == (len(answer["sentences"]), warned(answer))
    for route, body in (
        ("search", {"query": {"abstract": text}}),
        ("recommendations", {"seeds": [{"abstract": text}]}),
    ):
        answered = client.post(f"/v1/{route}", json={**body, "limit": 1}).json()
        assert [("sentences_cut", ["3"])] == warned(answered)
    assert [] == analyzed(client, abstract="We fit a model. " * 1_000)["warnings"]


def test_chosen_sentences_that_were_not_read_are_reported(client: TestClient) -> None:
    """Chosen sentences past the encoder's limit are left out on both sides, with a warning for each side."""
    query = {"abstract": ABSTRACT}
    body = {"query": query, "sentences": [0, 3, 2], "unlike": {"sentences": [1, 3]}, "limit": 1}
    answer = client.post("/v1/search", json=body).json()
    assert ([0], [1]) == (answer["query"]["selected"], answer["query"]["unlike"])
    past = [("sentences_past_token_limit", ["2", "3"]), ("unlike_sentences_past_token_limit", ["3"])]
    assert past == warned(answer)
    seeds = {"seeds": [{**query, "sentences": [1, 3]}], "limit": 1}
    answer = client.post("/v1/recommendations", json=seeds).json()
    assert [("sentences_past_token_limit", ["3"])] == warned(answer)


def test_the_same_text_gives_the_same_answer(client: TestClient) -> None:
    """Two identical requests differ only in took_ms."""
    answers = [analyzed(client, abstract=ABSTRACT) for _ in range(2)]
    for answer in answers:
        assert answer.pop("took_ms") >= 0
    assert answers[0] == answers[1]


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1, width=32), min_size=5, max_size=5).filter(lambda row: sum(row) > 1e-3))
def test_rounded_probabilities_sum_to_one(row: list[float]) -> None:
    """Probabilities have four digits, are within one unit of the last digit, and sum to 1."""
    exact = np.array([row], np.float32) / np.float32(sum(row))
    paper = Paper("", "", "A.", (Sentence("A.", 0, 2),))
    out = AnalyzeOut.of(Analysis(paper, exact, 0, "t", (), 0.0))
    rounded = [out.sentences[0].probabilities[facet] for facet in FACETS]
    assert 1 == pytest.approx(sum(rounded), abs=1e-12)
    assert [round(each, 4) for each in rounded] == rounded
    assert np.abs(np.array(rounded) - exact[0]).max() <= 1.01e-4


BAD_REQUESTS: list[Any] = [
    {},
    {"title": "T"},
    {"abstract": " \n "},
    {"abstract": []},
    {"abstract": ["a", " "]},
    {"abstract": "y" * 100_001},
    {"abstract": ["y" * 60_000, "z" * 60_000]},
    {"abstract": 3},
    {"abstract": "x", "title": "x" * 2001},
    {"abstract": "x", "paper_id": "demo:p03-m07"},
    [],
]


@pytest.mark.parametrize("body", BAD_REQUESTS)
def test_a_wrong_request_gets_a_problem(client: TestClient, body: Any) -> None:
    """A wrong request gets a problem+json of at most 4 kB with a detail."""
    response = client.post("/v1/analyze", json=body)
    assert (422, "application/problem+json") == (response.status_code, response.headers["content-type"])
    assert response.json()["detail"]
    assert len(response.content) <= 4096


def run(*arguments: str | Path, stdin: str | None = None, status: int = 0) -> str:
    """Return what ``akin analyze`` prints, after checking its exit status."""
    result = CliRunner().invoke(app, ["analyze", *map(str, arguments)], input=stdin)
    assert status == result.exit_code, result.output
    return result.output


def test_json_is_the_body_of_the_service(
    client: TestClient, annotator: Annotator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`akin analyze --json` prints the answer of POST /v1/analyze except took_ms, from a file or `-`."""
    monkeypatch.setattr("akin.cli.search.analyze.load_annotator", lambda name, device, tagger: annotator)
    text = f"Floods\n\n{ABSTRACT}"
    file = tmp_path / "query.txt"
    file.write_text(text, encoding="utf-8")
    answered = analyzed(client, title="Floods", abstract=ABSTRACT)
    del answered["took_ms"]
    for printed in (json.loads(run(file, "--json")), json.loads(run("-", "--json", stdin=text))):
        del printed["took_ms"]
        assert answered == printed


def test_a_table_for_people(annotator: Annotator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The printed table has number, facet, probability and text of the sentences, and the encoder's limit."""
    monkeypatch.setattr("akin.cli.search.analyze.load_annotator", lambda name, device, tagger: annotator)
    shown = [" ".join(line.split()) for line in run("-", stdin=ABSTRACT).splitlines()]
    assert "1 method 60% We propose a gauge." in shown
    assert "The encoder did not read the last 2 sentences." in shown
    assert "Facets by the tagger keywords." in shown


def test_facets_by_weights_of_ones_own() -> None:
    """`akin analyze --tagger FILE` uses that tagger instead of the encoder's."""
    weights = SHIPPED_WEIGHTS / "facets-surface.safetensors.halves.gz"
    command = ["-", "--encoder", "hashing", "--tagger", weights, "--json"]
    assert "facets-surface" == json.loads(run(*command, stdin=ABSTRACT))["tagger"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Standard input is empty"),
        (" \n ", "Standard input is empty"),
        ("{", "The query"),
        ('{"title": "x"}', "The query"),
    ],
)
def test_what_is_no_abstract_is_an_error(text: str, said: str) -> None:
    """Standard input without a usable abstract gets one clear error."""
    assert run("-", stdin=text, status=1).startswith(f"error: {said}")
