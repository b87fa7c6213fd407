"""Tests of cached answers: the same bytes as computed ones, of the served generation, with a new time."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from pydantic import BaseModel, SecretStr

from models.annotator import AnnotatedPaper, Annotator, load_annotator
from models.encoder import Encoder
from models.errors import EncoderError
from models.types import Paper, Precision
from service.api.answers import Answers
from service.api.middleware.access_control import running_at_once
from service.api.schemas.base import pasted_paper
from service.api.schemas.search.recommendations import RecommendationsOut
from service.api.schemas.search.results import SearchOut
from service.api.schemas.search.sentences import SentenceSearchOut
from service.api.schemas.writing import JSONAnswer
from service.app import create_app
from service.cache.annotations import CachedAnnotator, CachedEncoder, load_cached
from service.cache.redis import RedisStore
from service.cache.store import Cache, CacheStats
from service.collection.generations import open_engine
from service.resolve.pasted import read_pasted
from service.search.engine import SearchEngine
from service.settings import Settings
from tests.support.annotators import KeywordTagger, annotated
from tests.support.builds import DEMO_CORPUS, build_quietly, write_corpus
from tests.support.servers.redis import RedisServer

SECRET = SecretStr("0123456789abcdef" * 2)
ABSTRACT = "Rivers flood towns. We fit a graph network to gauges. It forecasts floods a day ahead."
PASTED = {"title": "Floods", "abstract": ABSTRACT}
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/search", {"query": {"paper_id": "demo:p03-m07"}, "limit": 3}),
    ("/v1/search", {"query": PASTED, "sentences": [1], "limit": 3}),
    ("/v1/search", {"query": {"text": "graph networks for floods"}, "limit": 3}),
    ("/v1/search", {"query": PASTED, "filters": {"year_from": 2090}}),
    ("/v1/recommendations", {"seeds": [{"paper_id": "demo:p03-m07"}, PASTED], "limit": 3}),
    ("/v1/sentences/search", {"query": {"text": "We release our code."}, "limit": 3}),
]


@contextmanager
def service(data: Path, *, memory_mib: int = 64, redis: str | None = None) -> Iterator[TestClient]:
    """Yield a client of a newly started service that keeps its Redis even if the machine is busy."""
    store = None if redis is None else RedisStore(redis, timeout_s=5.0, most_s=5.0)
    cache = Cache(memory_mib=memory_mib, redis=store, key=b"k" * 32)
    settings = Settings(data=data, device="cpu", rate=100, secret=SECRET)
    with TestClient(create_app(settings, cache=cache)) as client:
        yield client


@pytest.fixture(scope="module")
def few_data(tmp_path_factory: pytest.TempPathFactory, minilm: Encoder) -> Path:
    """Return a data folder with a dozen papers under the default encoder."""
    folder = tmp_path_factory.mktemp("few")
    lines = DEMO_CORPUS.read_text(encoding="utf-8").splitlines(keepends=True)
    chosen = [line for line in lines if "demo:p03-m" in line]
    (folder / "few.jsonl").write_text("".join(chosen), encoding="utf-8")
    build_quietly(folder / "few.jsonl", folder / "data", minilm)
    return folder / "data"


def split(title: str, abstract: str | list[str]) -> Paper:
    """Return a pasted paper as the encoder gets it."""
    return read_pasted(pasted_paper(title, abstract))[0]


def stats(client: TestClient) -> CacheStats:
    """Return the cache statistics of a service."""
    cache: Cache = client.app.state.services.cache  # type: ignore[attr-defined]  # the client keeps its application
    return cache.stats()


def timeless(client: TestClient, path: str, body: dict[str, Any]) -> bytes:
    """Return the bytes of an answer up to its time, the last member."""
    response = client.post(path, json=body)
    assert (200, "application/json") == (response.status_code, response.headers["content-type"])
    content, _, took_ms = response.content.rpartition(b'"took_ms":')
    assert 0 < float(took_ms.removesuffix(b"}")) == response.json()["took_ms"]
    return content


def test_kept_answers_are_the_computed_bytes(few_data: Path, redis_server: RedisServer) -> None:
    """An answer is the same bytes if computed, kept in memory, or kept in Redis by another process."""
    computed = []
    with service(few_data, memory_mib=0) as client:
        for path, body in QUESTIONS:
            computed.append(timeless(client, path, body))
            assert (computed[-1], 0) == (timeless(client, path, body), stats(client).memory_hits)
    with service(few_data, redis=redis_server.url) as client:
        for expected, (path, body) in zip(computed, QUESTIONS, strict=True):
            assert expected == timeless(client, path, body)
            before = stats(client)
            assert expected == timeless(client, path, body)
            assert stats(client).memory_hits > before.memory_hits
    with service(few_data, redis=redis_server.url) as client:
        for expected, (path, body) in zip(computed, QUESTIONS, strict=True):
            before = stats(client)
            assert expected == timeless(client, path, body)
            after = stats(client)
            assert (1, 0) == (after.redis_hits - before.redis_hits, after.redis_misses - before.redis_misses)


@pytest.mark.parametrize("answer", [SearchOut, RecommendationsOut, SentenceSearchOut])
def test_the_time_is_the_last_member_of_an_answer(answer: type[BaseModel]) -> None:
    """The time is the last member, because the cache keeps everything before it."""
    assert "took_ms" == list(answer.model_fields)[-1]


def test_pages_fit_together_whichever_of_them_are_kept(hashed_data: Path) -> None:
    """Pages requested twice or with another limit are cached separately and fit together."""
    with service(hashed_data) as client:
        first = client.post("/v1/search", json=QUESTIONS[0][1]).json()
        body = {**QUESTIONS[0][1], "cursor": first["next_cursor"]}
        pages = [client.post("/v1/search", json=each).json() for each in (body, body, {**body, "limit": 4})]
        ids = [[result["paper"]["id"] for result in page["results"]] for page in pages]
        assert (ids[0], ids[2][:3], 4) == (ids[1], ids[0], len(ids[2]))
        assert not set(ids[0]) & {result["paper"]["id"] for result in first["results"]}


def test_headers_of_a_cached_answer_stay(hashed_data: Path) -> None:
    """A cached answer gets its own request id and its Vary header; files are unaffected."""
    with service(hashed_data) as client:
        answers = [client.post("/v1/search", json=QUESTIONS[0][1]) for _ in range(2)]
        assert 2 == len({answer.headers["X-Request-ID"] for answer in answers})
        assert ["Accept"] * 2 == [answer.headers["Vary"] for answer in answers]
        files = [
            client.post("/v1/search", json=QUESTIONS[0][1], headers={"Accept": "text/csv"}) for _ in range(2)
        ]
        assert files[0].content == files[1].content
        assert files[0].headers["content-type"].startswith("text/csv")


def test_errors_are_not_kept(hashed_data: Path) -> None:
    """A request that fails is refused each time and leaves nothing in the cache."""
    with service(hashed_data) as client:
        kept = stats(client).memory_values
        for _ in range(2):
            assert 404 == client.post("/v1/search", json={"query": {"paper_id": "none"}}).status_code
        assert kept == stats(client).memory_values


def test_a_new_generation_sees_no_old_answer(
    tmp_path: Path, hashing: Encoder, redis_server: RedisServer
) -> None:
    """After a build the answer is new, even in a new folder whose generations count from 1 again."""
    seen = []
    for number, folder in enumerate(("a", "a", "b")):
        abstracts = [f"We study rivers. Case {i}." for i in range(3 + number)]
        papers = [{"id": f"p{i}", "title": "T", "abstract": text} for i, text in enumerate(abstracts)]
        corpus = write_corpus(tmp_path / f"{number}.jsonl", papers)
        build_quietly(corpus, tmp_path / folder, hashing)
        with service(tmp_path / folder, redis=redis_server.url) as client:
            answer = client.post("/v1/search", json={"query": {"paper_id": "p0"}}).json()
            seen.append((answer["generation"], len(answer["results"])))
    assert [("000001", 2), ("000002", 3), ("000001", 4)] == seen


class Counted(Annotator):
    """An annotator that records how many papers each call annotates."""

    def __init__(self, inner: Annotator) -> None:
        super().__init__(inner.encoder, tagger=inner.tagger, functions=inner.functions)
        self.calls: list[int] = []

    def annotate(self, papers: list[Paper]) -> list[AnnotatedPaper]:
        """Annotate the papers as the annotator does."""
        self.calls.append(len(papers))
        return super().annotate(papers)


def arrays(annotated_paper: AnnotatedPaper) -> list[bytes]:
    """Return the bytes of all arrays of an annotated paper."""
    encoded = annotated_paper.encoded
    given = (encoded.sentences, encoded.document, annotated_paper.probabilities, annotated_paper.functions)
    return [b"" if each is None else np.ascontiguousarray(each).tobytes() for each in given]


def test_papers_are_annotated_once_bit_for_bit(redis_server: RedisServer) -> None:
    """Facets, vectors and functions of pasted papers are the same bytes from memory and from Redis."""
    texts = (ABSTRACT, "We release our code.", "We study rivers. They flood.")
    papers = [split("Title", text) for text in texts]
    plain = load_annotator("minilm", device="cpu")
    lots = (papers[:1], papers, papers[1:2])
    expected = [[arrays(each) for each in plain.annotate(lot)] for lot in lots]
    for calls in ([1, 3, 1], []):
        counted = Counted(plain)
        store = RedisStore(redis_server.url, timeout_s=5.0, most_s=5.0)
        cache = Cache(memory_mib=8, redis=store, key=b"k" * 32)
        annotator = CachedAnnotator(counted, cache, device="cpu")
        for _ in range(2):
            found = [annotator.annotate(lot) for lot in lots]
            assert expected == [[arrays(each) for each in lot] for lot in found]
        assert [each.paper for each in plain.annotate(papers)] == [each.paper for each in found[1]]
        assert (calls, []) == (counted.calls, annotator.annotate([]))
        (encoded,) = annotator.encoder.encode(papers[:1])
        assert expected[0][0][0] == encoded.sentences.tobytes()
        cache.close()


def test_short_texts_are_encoded_once(hashing: Encoder) -> None:
    """Vectors requested alone are cached separately from annotations; hidden layers are not cached."""
    cache, (paper,) = Cache(memory_mib=1), [split("", "We study rivers.")]
    encoder = CachedEncoder(hashing, cache, device="cpu")
    first, again = (encoder.encode([paper])[0].sentences for _ in range(2))
    assert hashing.encode([paper])[0].sentences.tobytes() == first.tobytes() == again.tobytes()
    assert (1, 1, []) == (cache.stats().memory_values, cache.stats().memory_hits, encoder.encode([]))
    with pytest.raises(EncoderError):
        encoder.encode([paper], layers=(1,))


def test_what_decides_the_vectors_decides_the_name(hashing: Encoder) -> None:
    """Another device, tagger, title or split into sentences shares no cached annotation."""
    cache, paper = Cache(memory_mib=1), split("T", "We study rivers. They flood.")
    other_title, other_cut = split("U", paper.abstract), split("T", [paper.abstract])
    plain = annotated(hashing)
    for annotator, device, each in (
        (plain, "cpu", paper),
        (plain, "cuda", paper),
        (Annotator(hashing, tagger=KeywordTagger("other")), "cpu", paper),
        (plain, "cpu", other_title),
        (plain, "cpu", other_cut),
    ):
        before = cache.stats().memory_values
        CachedAnnotator(annotator, cache, device=device).annotate([each])
        assert before + 1 == cache.stats().memory_values
    CachedAnnotator(plain, cache, device="cpu").annotate([paper])
    assert 5 == cache.stats().memory_values


def test_number_formats_share_nothing(hashing: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors in bfloat16 are kept apart from float32; ``auto`` shares with the format it selects."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    cache, paper = Cache(memory_mib=1), split("T", "We study rivers. They flood.")
    kept = []
    for precision in (Precision.FLOAT32, Precision.BFLOAT16, Precision.AUTO):
        cached = load_cached(lambda: annotated(hashing), cache, device="cpu", precision=precision)
        cached.annotate([paper])
        kept.append(cache.stats().memory_values)
    assert [1, 2, 2] == kept


def test_texts_encoded_together_share_nothing_with_others(hashed_data: Path) -> None:
    """Their last digits depend on their batch, so processes with AKIN_TOGETHER have values of their own."""
    cache, paper = Cache(memory_mib=1), split("T", "We study rivers. They flood.")
    for together, kept in ((1, 1), (4, 2), (8, 2)):
        engine = open_engine(Settings(data=hashed_data, device="cpu", together=together), cache)
        engine.annotator.annotate([paper])
        assert kept == cache.stats().memory_values


def test_as_many_run_at_once_as_are_encoded_together() -> None:
    """Otherwise no text would find another one to be encoded with."""
    assert 8 == running_at_once(Settings(running=2, together=8))
    assert 16 == running_at_once(Settings(running=16, together=8))


def test_rates_are_counted_for_all_processes_together(hashed_data: Path, redis_server: RedisServer) -> None:
    """Two processes share a caller's rate limit through Redis; while Redis is down each counts alone."""

    def remaining(client: TestClient) -> int:
        response = client.post("/v1/search", json=QUESTIONS[0][1])
        assert 200 == response.status_code
        return int(response.headers["RateLimit-Remaining"])

    url = redis_server.url
    with service(hashed_data, redis=url) as first, service(hashed_data, redis=url) as second:
        assert [99, 98, 97] == [remaining(client) for client in (first, second, first)]
        redis_server.flush()
        assert 99 == remaining(second)
        redis_server.stop()
        assert [99, 98, 99, 97] == [remaining(client) for client in (first, first, second, first)]
        assert ["redis"] == [each["part"] for each in first.get("/readyz").json()["degraded"]]
        metrics = first.get("/metrics").text
        assert 'akin_cache_lookups_total{layer="memory",outcome="hits"}' in metrics
        assert "akin_redis_errors_total 3.0" in metrics


def test_a_caller_over_its_rate_is_refused_everywhere(hashed_data: Path, redis_server: RedisServer) -> None:
    """The request after the last allowed one gets 429 from whichever process answers it."""
    url = redis_server.url
    with service(hashed_data, redis=url) as first, service(hashed_data, redis=url) as second:
        for number in range(100):
            assert 200 == (first, second)[number % 2].get("/v1/papers/demo:p03-m07").status_code
        refused = second.get("/v1/papers/demo:p03-m07")
        assert 429 == refused.status_code
        assert 0 < int(refused.headers["Retry-After"]) <= 60


def test_the_setting_names_the_redis(hashed_data: Path, redis_server: RedisServer) -> None:
    """AKIN_REDIS_URL alone turns on the Redis cache, and an empty value means none."""
    settings = Settings(data=hashed_data, device="cpu", secret=SECRET, redis_url=SecretStr(redis_server.url))
    with TestClient(create_app(settings)) as client:
        assert 200 == client.post("/v1/search", json=QUESTIONS[0][1]).status_code
        assert stats(client).redis_misses > 0
    assert Settings(redis_url=SecretStr("")).redis is None


def test_machines_that_compute_otherwise_share_no_answer(
    plain_engine: SearchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If "auto" selects float32 on one machine and bfloat16 on another, they share no cached answer."""
    cache = Cache(memory_mib=1)
    for n_made, precision in enumerate((Precision.FLOAT32, Precision.BFLOAT16, Precision.FLOAT32)):
        content = b'{"score":%d,"took_ms":1}' % (precision is Precision.FLOAT32)
        monkeypatch.setattr("models.encoders.devices.resolve_precision", lambda *_, own=precision: own)
        answers = Answers(cache, device="auto", precision="auto")
        made = partial(JSONAnswer, content, 1.0)
        answer = answers.content(plain_engine, "a question", made, reads_text=False)
        assert content[:10] == answer[:10], n_made


def test_answers_to_texts_name_the_device_of_the_models(plain_engine: SearchEngine, hashing: Encoder) -> None:
    """Models that did not fit on the GPU, and so are on the CPU, share no answer to a text with the GPU."""
    cache = Cache(memory_mib=1)
    answers = Answers(cache, device="cpu", precision="float32")
    for device in (b"cuda", b"cpu"):
        annotator = CachedAnnotator(annotated(hashing), cache, device=device.decode())
        engine = SearchEngine(plain_engine.snapshot, lambda own=annotator: own, n_candidates=50)
        made = partial(JSONAnswer, b'{"device":"%s","took_ms":1}' % device, 1.0)
        assert device in answers.content(engine, "a question", made, reads_text=True)


def test_the_time_is_that_of_the_search(plain_engine: SearchEngine) -> None:
    """A computed answer keeps the time of its search; a cached answer has the time of its look-up."""
    answers = Answers(Cache(memory_mib=1), device="cpu", precision="float32")
    computed = JSONAnswer(b'{"results":[],"took_ms":12345.5}', 12345.5)
    first, again = (
        answers.content(plain_engine, "a question", lambda: computed, reads_text=False) for _ in range(2)
    )
    assert computed.content == first
    assert first != again
    assert again.startswith(b'{"results":[],"took_ms":')
