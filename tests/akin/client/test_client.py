"""Tests of the Python client: typed answers, one error class, retries, and the documented examples."""

import dataclasses
import re
import subprocess
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, Union, get_args, get_origin

import anyio
import httpx
import pytest
from pydantic import BaseModel

import akin
from akin.client import params, requests
from akin.client.pagination import Pages
from akin.client.responses import papers as paper_answers
from akin.client.responses import ranked
from akin.client.responses import sentences as sentence_answers
from akin.client.responses.papers import AnswerWarning
from akin.client.responses.parsing import unreachable
from akin.client.retries import Retries
from models.errors import InputError, ServiceError
from service.answer_warnings import WarningCode, coverage_warning, warning
from service.api.schemas import base, match, papers
from service.api.schemas.search import filters, query, recommendations, results, search, sentences
from service.app import create_app
from service.search.engine import SearchEngine
from service.settings import Settings
from tests.support.builds import ROOT
from tests.support.documents import SERVICE, client_examples
from tests.support.servers.loopback import served

EXAMPLES = client_examples()


@pytest.fixture(scope="module")
def address(sentence_engine: SearchEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a service over the demo corpus."""
    settings = Settings(data=tmp_path_factory.mktemp("client"))
    with served(create_app(settings, sentence_engine)) as address:
        yield address


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[akin.Client]:
    """Yield a client of that service."""
    with akin.Client(address) as client:
        yield client


@pytest.mark.parametrize("code", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_documented_example_runs(address: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The Python examples of README and documentation run, with the address replaced."""
    exec(compile(code.replace(SERVICE, address), "example", "exec"), {})  # noqa: S102 - ours
    printed = capsys.readouterr().out
    shows = {".search(": r"^-\d\.\d{3}  demo:p\d\d-m\d\d  \w", "open_feed": r"^http://[\w.:/-]+$"}
    for call, shown in shows.items():
        assert call not in code or re.search(shown, printed, re.M)


def test_there_is_a_documented_example() -> None:
    """The documentation has at least one example of the client."""
    assert EXAMPLES


def test_a_search_is_that_of_the_service(client: akin.Client, address: str) -> None:
    """The client's answer equals the service's, and highlights point at the sentences of the abstract."""
    options: dict[str, Any] = {"facet": "method", "unlike": {"facet": ["background"], "weight": 0.5}}
    options |= {"filters": {"year_from": 2020, "has_facets": ["result"]}, "scorer": "single", "limit": 4}
    answer = client.search(paper_id="demo:p03-m07", **options)
    body = {"query": {"paper_id": "demo:p03-m07"}, **options}
    expected = httpx.post(f"{address}/v1/search", json=body).json()
    assert [r["paper"]["id"] for r in expected["results"]] == [r.paper.id for r in answer.results]
    assert [r["score"] for r in expected["results"]] == [r.score for r in answer.results]
    assert (tuple(expected["query"]["selected"]), expected["generation"]) == (
        answer.query.selected,
        answer.generation,
    )
    best = answer.results[0]
    shown = best.highlights[0]
    assert best.paper.abstract[shown.start : shown.end] == best.paper.sentence(shown.sentence or 0)
    assert shown.weight == pytest.approx(dict(best.matching())[best.paper.sentence(shown.sentence or 0)])


def test_a_pasted_paper_with_its_sentences(client: akin.Client) -> None:
    """A title with an abstract as a list of sentences can be the query."""
    answer = client.search(title="Floods", abstract=["Rivers flood.", "We fit gauges."], sentences=(1,))
    assert ("Floods", (1,)) == (answer.query.title, answer.query.selected)
    assert ["Rivers flood.", "We fit gauges."] == [each.text for each in answer.query.sentences]


def test_sentences_analysis_and_paper(client: akin.Client) -> None:
    """Sentence searches, analyses and papers are returned with their own types."""
    found = client.search_sentences(paper_id="demo:p03-m07", sentence=3, by="function", limit=2)
    assert (2, "function") == (len(found.results), found.query.by)
    analysis = client.analyze("Rivers flood towns. We fit a network.", title="A draft")
    assert [5, 5] == [len(sentence.probabilities) for sentence in analysis.sentences]
    assert "demo:p03-m07" == client.paper("demo:p03-m07").id


def test_a_few_words(client: akin.Client) -> None:
    """A short text can be the query."""
    answer = client.search(text="Graph networks predict floods.", limit=2)
    assert 2 == len(answer.results)


def test_recommendations(client: akin.Client) -> None:
    """Recommendations return papers, the state of each seed and negative, and unresolved seeds."""
    seeds: list[params.Seed] = [{"paper_id": "demo:p03-m07", "facet": "method"}, {"paper_id": "demo:p99"}]
    answer = client.recommend(seeds=seeds, negatives=[{"paper_id": "demo:p01-m07"}], limit=3)
    assert 3 == len(answer.results)
    assert [(0, False), (0, True)] == [(seed.seed, seed.negative) for seed in answer.seeds]
    assert [(1, "not_indexed")] == [(lost.seed, lost.reason) for lost in answer.unresolved]
    best = answer.results[0]
    counted = [*best.alignments, *best.omitted, best.words]
    assert -sum(each.weight * each.distance for each in counted) == pytest.approx(best.score, abs=1e-5)
    assert best.matching()
    assert best.words.terms


def test_async_clients_answer_the_same(address: str, client: akin.Client) -> None:
    """AsyncClient returns the same answers as Client."""

    async def ask() -> tuple[
        ranked.SearchAnswer, sentence_answers.SentenceAnswer, sentence_answers.Analysis, paper_answers.Paper
    ]:
        async with akin.AsyncClient(address) as asking:
            return (
                await asking.search(paper_id="demo:p03-m07", limit=3),
                await asking.search_sentences(text="We study floods."),
                await asking.analyze("Rivers flood."),
                await asking.paper("demo:p03-m07"),
            )

    search, sentences, analysis, paper = anyio.run(ask)
    assert client.search(paper_id="demo:p03-m07", limit=3).results == search.results
    assert client.search_sentences(text="We study floods.").results == sentences.results
    assert client.analyze("Rivers flood.").sentences == analysis.sentences
    assert client.paper("demo:p03-m07") == paper


def test_papers_are_listed_and_fetched(address: str, client: akin.Client) -> None:
    """All papers are listed by pages, and several are fetched by name, with and without asyncio."""
    page = client.list_papers(limit=60)
    rest = client.list_papers(cursor=page.next_cursor)
    listed = [*page.papers, *rest.papers]
    assert (page.total, page.total) == (len(listed), len({paper.id for paper in listed}))
    assert rest.next_cursor is None
    assert page.papers[:2] == client.list_papers(limit=2.0, year_from=1000.0).papers  # as pandas has them
    names = [listed[3].title.upper(), "nobody", listed[0].id]
    assert (listed[3], None, listed[0]) == client.papers(names)

    async def ask() -> tuple[tuple[paper_answers.Paper | None, ...], paper_answers.PaperList]:
        async with akin.AsyncClient(address) as asking:
            return await asking.papers(names), await asking.list_papers(limit=60)

    assert (client.papers(names), page) == anyio.run(ask)


def test_a_list_of_several_pages_warns_as_one_answer(client: akin.Client) -> None:
    """Its inexact results are those of all pages, and its coverage, with the warning, is the least of all."""
    page = client.search(paper_id="demo:p03-m07", limit=3)

    def answered(inexact: int, coverage: float) -> ranked.SearchAnswer:
        sent = [warning(WarningCode.LIST_ENDS_AT, 10_000), warning(WarningCode.NOT_CONVERGED, inexact)]
        sent += coverage_warning(coverage)
        warnings = tuple(AnswerWarning(each.code.value, each.message, each.about) for each in sent)
        return dataclasses.replace(page, warnings=warnings, coverage=coverage)

    pages = Pages(requests.search, {"limit": 2_000})
    for shown in (answered(3, 0.9), answered(3, 0.75), answered(1_000, 1.0)):
        pages.take(shown)
    assert answered(1_006, 0.75).warnings == pages.answer().warnings
    assert 0.75 == pages.answer().coverage


def test_a_problem_is_one_error(client: akin.Client) -> None:
    """A refused request raises an error with the status, type, detail and request id."""
    with pytest.raises(ServiceError, match="No paper of this collection") as caught:
        client.search(paper_id="../\r\nnobody")
    error = caught.value
    assert (404, "urn:akin:problem:paper-not-found") == (error.status, error.type)
    assert re.fullmatch("[0-9a-f]{32}", error.request_id or "")
    with pytest.raises(ServiceError, match="The request cannot be used") as caught:
        client.search(limit=3)
    assert 422 == caught.value.status


class Scripted:
    """A transport that returns scripted responses in order and records the requests."""

    def __init__(self, *script: httpx.Response | type[httpx.TransportError]) -> None:
        self.script = list(script)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Return or raise the next response of the script."""
        self.requests.append(request)
        answer = self.script.pop(0)
        if isinstance(answer, httpx.Response):
            return answer
        raise answer("broken", request=request)


PAPER = {
    "paper": {name.name: None for name in dataclasses.fields(paper_answers.Paper)}
    | {"id": "a", "title": "A", "abstract": "B", "sentences": [], "authors": [], "fields": [], "new": 1},
    "generation": "000001",
}


def found() -> httpx.Response:
    """Return a response with a paper, which has a field unknown to this version."""
    return httpx.Response(200, json=PAPER)


def busy(status: int, after: str | None = None) -> httpx.Response:
    """Return the response of a temporary problem."""
    body = {"type": "urn:akin:problem:overloaded", "detail": "Too much.", "status": status}
    headers = {"content-type": "application/problem+json"} | ({} if after is None else {"retry-after": after})
    return httpx.Response(status, json=body, headers=headers)


@pytest.fixture
def waits() -> list[float]:
    """Return the list in which the seconds of each wait are recorded, without waiting."""
    return []


# Retries with the longest allowed waits.
PATIENT = Retries(draw=lambda _least, most: most)
Ask = Callable[..., paper_answers.Paper]


def ask(
    script: Scripted, waits: list[float], retries: Retries = PATIENT, **options: Any
) -> paper_answers.Paper:
    """Request a paper."""
    transport = httpx.MockTransport(script)
    with akin.Client(transport=transport, retries=retries, sleep=waits.append, **options) as client:
        return client.paper("doi:10/a b")


def ask_async(
    script: Scripted, waits: list[float], retries: Retries = PATIENT, **options: Any
) -> paper_answers.Paper:
    """Request a paper, asynchronously."""

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def asking() -> paper_answers.Paper:
        transport = httpx.MockTransport(script)
        async with akin.AsyncClient(transport=transport, retries=retries, sleep=sleep, **options) as client:
            return await client.paper("doi:10/a b")

    return anyio.run(asking)


def test_why_it_cannot_be_reached_is_said() -> None:
    """A certificate or a name that is wrong is not the same as a service that does not run."""
    refused = httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")
    why = str(unreachable(refused, httpx.URL("https://u:p@h/")))
    assert why.startswith("The service at https://h/ cannot be reached")
    assert why.endswith("(ConnectError: [SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate).")


@pytest.mark.parametrize("asking", [ask, ask_async])
class TestPatience:
    def test_retries_wait_as_the_service_says(self, asking: Ask, waits: list[float]) -> None:
        """After 429 and 503 the client waits as Retry-After says, or else doubles the wait each time."""
        script = Scripted(busy(503), busy(429, "7"), busy(503), found())
        assert "a" == asking(script, waits).id
        assert [0.5, 7, 2] == waits
        assert {"/v1/papers/doi%3A10%2Fa%20b"} == {r.url.raw_path.decode() for r in script.requests}

    def test_a_date_is_a_wait_too(self, asking: Ask, waits: list[float]) -> None:
        """Retry-After may be a date by the service's clock; an invalid value is ignored."""
        dated = busy(503, "Wed, 01 Jan 2020 10:00:30 GMT")
        dated.headers["date"] = "Wed, 01 Jan 2020 10:00:00 GMT"
        past = busy(503, "Wed, 01 Jan 2020 10:00:30 GMT")  # by this machine's clock, as it has no date
        asking(Scripted(dated, past, busy(503, "soon"), found()), waits)
        assert [30.0, 0.0, 2.0] == waits

    def test_broken_connections_are_made_anew(self, asking: Ask, waits: list[float]) -> None:
        """A request is retried after a refused or broken connection."""
        asking(Scripted(httpx.ConnectError, httpx.RemoteProtocolError, found()), waits)
        assert [0.5, 1.0] == waits

    def test_patience_ends(self, asking: Ask, waits: list[float]) -> None:
        """The problem is raised after the last attempt, and at once if the wait would be too long."""
        with pytest.raises(ServiceError, match=r"Too much\.") as caught:
            asking(Scripted(*[busy(429, "3")] * 4), waits)
        assert ([3, 3, 3], 429, 3) == (waits, caught.value.status, caught.value.retry_after_s)
        with pytest.raises(ServiceError):
            asking(Scripted(busy(503, "61")), waits)
        with pytest.raises(ServiceError):
            asking(Scripted(busy(503)), waits, retries=Retries(attempts=1))
        with pytest.raises(ServiceError, match="cannot be reached") as caught:
            asking(Scripted(*[httpx.ConnectError] * 4), waits)
        assert (None, "urn:akin:problem:unreachable") == (caught.value.status, caught.value.type)

    def test_patience_may_last_for_days(self, asking: Ask, waits: list[float]) -> None:
        """The doubled wait stays the longest allowed one, however many attempts there are."""
        asking(Scripted(*[busy(503)] * 1_100, found()), waits, retries=Retries(5_000, 0.5, 60, PATIENT.draw))
        assert {60} == {*waits[7:]}

    @pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 500, 502, 504])
    def test_what_will_not_pass_is_not_repeated(self, asking: Ask, waits: list[float], status: int) -> None:
        """Other problems are raised without a retry."""
        with pytest.raises(ServiceError) as caught:
            asking(Scripted(busy(status)), waits)
        assert ([], status) == (waits, caught.value.status)

    def test_a_slow_answer_is_not_requested_again(self, asking: Ask, waits: list[float]) -> None:
        """A timeout is raised without a retry, which would only double the load."""
        with pytest.raises(ServiceError, match="did not answer in time"):
            asking(Scripted(httpx.ReadTimeout), waits)
        assert [] == waits

    def test_what_stands_before_a_service(self, asking: Ask, waits: list[float]) -> None:
        """HTML pages of proxies and answers in another format are errors without a type."""
        page = httpx.Response(502, text="<html>", headers={"content-type": "text/html"})
        lying = httpx.Response(404, text="{", headers={"content-type": "application/problem+json"})
        other = httpx.Response(200, json={"hello": "world"})
        for response in (page, lying, other):
            with pytest.raises(ServiceError) as caught:
                asking(Scripted(response), waits)
            assert ("about:blank", response.status_code) == (caught.value.type, caught.value.status)

    def test_what_cannot_be_a_wait_is_ignored(self, asking: Ask, waits: list[float]) -> None:
        """A date in Retry-After that no clock has is ignored."""
        asking(Scripted(busy(503, "Fri, 31 Dec 9999 23:59:59 -1200"), found()), waits)
        assert [0.5] == waits

    def test_a_status_alone_is_said_in_a_sentence(self, asking: Ask, waits: list[float]) -> None:
        """A redirect names its address, and another status without a message says what to check."""
        moved = httpx.Response(301, headers={"location": "https://papers.example/v1/papers/x"})
        with pytest.raises(ServiceError, match=r"\(301 Moved Permanently\) to https://papers.example/v1/"):
            asking(Scripted(moved), waits)
        with pytest.raises(ServiceError, match="502 Bad Gateway, not one of an Akin service"):
            asking(Scripted(httpx.Response(502)), waits)

    def test_a_key_is_sent(self, asking: Ask, waits: list[float]) -> None:
        """The key is sent in the Authorization header."""
        script = Scripted(found())
        asking(script, waits, key="k1")
        assert "Bearer k1" == script.requests[0].headers["authorization"]


def test_a_page_is_no_deletion() -> None:
    """A deletion that is answered with a page, such as that of a login, raises an error."""
    page = httpx.Response(200, text="<html>Log in", headers={"content-type": "text/html"})
    with akin.Client(transport=httpx.MockTransport(Scripted(*[page] * 5, httpx.Response(202)))) as client:
        for delete in (
            client.delete,
            client.delete_profile,
            client.delete_query,
            client.close_feed,
            client.cancel_batch,
        ):
            with pytest.raises(ServiceError, match=r"not one of /v1/.* of an Akin service"):
                delete("x")
        client.delete("x")


def test_a_closed_client_says_so() -> None:
    """A closed client, and an AsyncClient of a closed event loop, raise ``InputError``, not RuntimeError."""
    client = akin.Client()
    client.close()
    for ask in (lambda: client.paper("x"), lambda: list(client.batch_results("x"))):
        with pytest.raises(InputError, match=r"client has been closed\)\. Make another"):
            ask()

    def send(_: httpx.Request) -> httpx.Response:
        raise RuntimeError("Event loop is closed")  # as from a connection that an earlier loop made

    async def ask_twice() -> None:
        async with akin.AsyncClient(transport=httpx.MockTransport(send)) as waiting:
            with pytest.raises(InputError, match=r"loop is closed.*each asyncio\.run"):
                await waiting.paper("x")
            with pytest.raises(InputError, match="loop is closed"):
                await anext(waiting.batch_results("x"))

    anyio.run(ask_twice)


def test_an_address_is_given_in_full() -> None:
    """An address without a scheme is refused at construction, and errors never show a password."""
    with pytest.raises(InputError, match="http://"):
        akin.Client("localhost:8000")
    refused = httpx.MockTransport(Scripted(httpx.ConnectError))
    with (
        akin.Client("http://me:secret@h", transport=refused, retries=Retries(attempts=1)) as client,
        pytest.raises(ServiceError) as caught,
    ):
        client.paper("a")
    assert "secret" not in str(caught.value)


def test_importing_is_light() -> None:
    """Importing the client loads none of the heavy packages."""
    heavy = "{'torch', 'numpy', 'numba', 'faiss', 'pyarrow', 'transformers', 'fastapi', 'typer'}"
    code = f"import akin, sys; akin.Client; print({{m.split('.')[0] for m in sys.modules}} & {heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "set()" == done.stdout.strip()


PAIRS: list[tuple[type, type[BaseModel]]] = [
    (ranked.SearchAnswer, results.SearchOut),
    (paper_answers.PaperAnswer, base.PaperAnswerOut),
    (paper_answers.FetchedPapers, papers.FetchedOut),
    (paper_answers.PaperList, papers.ListOut),
    (ranked.RecommendationsAnswer, recommendations.RecommendationsOut),
    (sentence_answers.SentenceAnswer, sentences.SentenceSearchOut),
    (sentence_answers.Analysis, sentences.AnalyzeOut),
]


@pytest.mark.parametrize(("value", "schema"), PAIRS)
def test_answers_have_the_fields_of_the_service(value: type, schema: type[BaseModel]) -> None:
    """The client's answers have exactly the fields of the service's, at every level."""
    assert fields_of(schema) == fields_of(value)


def fields_of(shape: Any) -> Any:
    """Return the names of the fields of a type and, nested, of the types within it."""
    if isinstance(shape, type) and issubclass(shape, BaseModel):
        return {name: fields_of(field.annotation) for name, field in shape.model_fields.items()}
    if dataclasses.is_dataclass(shape):
        hints = typing.get_type_hints(shape)
        return {field.name: fields_of(hints[field.name]) for field in dataclasses.fields(shape)}
    within = [
        found for part in typing.get_args(shape) if part is not types.NoneType and (found := fields_of(part))
    ]
    return within[0] if within else {}


def names_in(union: object) -> set[str]:
    """Return the names of the fields of all members of ``union``."""
    kinds = get_args(union)
    if not isinstance(kinds[0], type) and get_origin(kinds[0]) is Union:  # annotated with the discriminator
        kinds = get_args(kinds[0])
    return {name for kind in kinds for name in getattr(get_args(kind)[0], "model_fields", ())}


def query_fields(body: type[BaseModel]) -> set[str]:
    """Return the names of the fields of the query of a search."""
    return names_in(body.model_fields["query"].annotation)


def test_requests_have_the_fields_of_the_service() -> None:
    """The client's request types have exactly the fields of the service's."""
    names = set(search.SearchIn.model_fields) - {"query"} | query_fields(search.SearchIn)
    assert names == set(params.SearchRequest.__annotations__)
    assert set(filters.FiltersIn.model_fields) == set(params.Filters.__annotations__)
    assert names_in(query.UnlikeIn) == set(params.Unlike.__annotations__)
    assert set(recommendations.RecommendationsIn.model_fields) == set(
        params.RecommendationsRequest.__annotations__
    )
    assert names_in(query.SeedIn) == set(params.Seed.__annotations__)
    assert set(match.PastedSubmissionIn.model_fields) == set(params.Submission.__annotations__)
    names = set(sentences.SentenceSearchIn.model_fields) - {"query"}
    names |= query_fields(sentences.SentenceSearchIn)
    assert names == set(params.SentenceRequest.__annotations__)
