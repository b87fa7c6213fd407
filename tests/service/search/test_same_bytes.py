"""Tests that a query on a generation has the same bytes from any process and under concurrency (R14)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.encoder import Encoder
from models.transport import Scorer
from service.app import create_app
from service.search.aspect import specificity_weights
from service.search.query import Detail, SearchQuery, Seed
from service.settings import Settings
from tests.support.builds import build_quietly, many_papers, write_corpus

N_PAPERS = 60
AT_ONCE_S = 20.0
FACETS = st.sampled_from(["background", "method", "result"])
WORDS = st.lists(
    st.sampled_from(["we", "study", "rivers", "lamps", "graphs", "floods", "'", "é"]), min_size=1, max_size=6
)
PASTED = st.builds(
    lambda title, sentences: {"title": " ".join(title), "abstract": [" ".join(each) for each in sentences]},
    WORDS,
    st.lists(WORDS, min_size=1, max_size=4),
)
INDEXED = st.integers(0, N_PAPERS - 1).map(lambda number: {"paper_id": f"p{number}"})
ASPECTS = st.one_of(
    st.just({}),
    st.builds(lambda facet: {"facet": facet}, FACETS),
    st.just({"sentences": [0]}),
    st.just({"unlike": {"sentences": [0]}}),
)
SHAPES = st.fixed_dictionaries(
    {},
    optional={
        "scorer": st.sampled_from([scorer.value for scorer in Scorer]),
        "tau": st.floats(0.01, 10),
        "words": st.floats(0, 1),
        "specificity": st.floats(0, 8),
        "limit": st.integers(1, 100),
        "include": st.lists(st.sampled_from([detail.value for detail in Detail]), unique=True),
        "max_alignments": st.integers(0, 8),
        "filters": st.builds(lambda year: {"year_from": year}, st.integers(1990, 2030)),
    },
)
SEARCHES = st.builds(
    lambda query, aspect, shape: {"query": query, **aspect, **shape},
    st.one_of(INDEXED, PASTED),
    ASPECTS,
    SHAPES,
)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Iterator[list[TestClient]]:
    """Yield two services without a cache of answers, over one collection of three segments."""
    folder = tmp_path_factory.mktemp("same")
    for n_papers in (20, 40, N_PAPERS):
        corpus = write_corpus(folder / f"{n_papers}.jsonl", many_papers(n_papers))
        build_quietly(corpus, folder / "data", hashing)
    with one_of(folder / "data") as first, one_of(folder / "data") as second:
        yield [first, second]


def one_of(data: Path) -> TestClient:
    """Return a client of a service without a rate limit."""
    return TestClient(create_app(Settings(data=data, device="cpu", rate=0, cache_mib=0)))


def answer(client: TestClient, body: dict[str, Any]) -> tuple[int, bytes]:
    """Return the status and the bytes of an answer up to its time, the last member."""
    response = client.post("/v1/search", json=body)
    content, _, _ = response.content.rpartition(b'"took_ms":')
    return response.status_code, content


@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(bodies=st.lists(SEARCHES, min_size=4, max_size=4))
def test_an_answer_depends_on_nothing_but_the_query(
    services: list[TestClient], bodies: list[dict[str, Any]]
) -> None:
    """Four searches one by one have the same answers as all at once in another order from another service."""
    one, other = services
    expected = [answer(one, body) for body in bodies]
    assert {200} >= {status for status, _ in expected if status != 422}
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda body: answer(other, body), reversed(bodies)))
    assert expected == found[::-1]
    assert all(b'"results":' in content for status, content in expected if status == 200)


def test_no_query_waits_for_what_another_finds_out(
    services: list[TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two concurrent searches both reach the weights of their sentences before either has computed them."""
    both = Barrier(2)

    def weigh(*given: Any, **more: Any) -> Any:
        both.wait(AT_ONCE_S)
        return specificity_weights(*given, **more)

    monkeypatch.setattr("service.search.rerank.specificity_weights", weigh)
    engine = services[0].app.state.services.collection.engines.current  # type: ignore[attr-defined]
    queries = [SearchQuery((Seed(f"p{number}"),), limit=1) for number in range(2)]
    with ThreadPoolExecutor(2) as threads:
        assert [1, 1] == [len(each.results) for each in threads.map(engine.search, queries)]
