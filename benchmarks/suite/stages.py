"""Where the time of indexing, of a search and of a page goes: the time of each stage.

The parts are measured during the searches, as in the service's metrics, or right after them.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from benchmarks.suite.rows import Row, in_turns, share
from models.encoder import Encoder
from models.text.sentences import split_sentences
from models.types import Paper
from service.api.schemas.search.results import SearchOut
from service.api.schemas.search.search import SearchIn
from service.context import Stages, set_stages
from service.resolve.text_query import one_sentence
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from service.web.routes import page
from tests.support.clients import client_of

_QUERIES, _LIMIT = 60, 10
_STAGES: Final = ("encode", "candidates", "rerank", "explain")
_SAID: Final = {
    "encode": "encoding the query and finding its facets",
    "candidates": "finding candidates: the index, the words, both in one list",
    "rerank": "re-ranking them by transport",
    "explain": "explaining 10 results: alignments, sentences, shared words, texts",
}


def rows(engine: SearchEngine, papers: Sequence[Paper]) -> Iterator[Row]:
    """Yield the stages of searches by id, of a pasted paper and by a typed sentence, as shares of each."""
    drawn = np.random.default_rng(2).choice(len(papers), min(_QUERIES, len(papers)), replace=False).tolist()
    chosen = [papers[number] for number in drawn]
    pasted = [Paper("", each.title, each.abstract, each.sentences) for each in chosen]
    typed = [each.sentences[0].text for each in chosen]
    for kind, seeds, encoded in (
        ("by id", [Seed(each.id) for each in chosen], None),
        ("of a pasted paper", [Seed(paper=each) for each in pasted], pasted),
        ("by a typed sentence", [Seed(text=each) for each in typed], [one_sentence(each) for each in typed]),
    ):
        whole, parts = _timed(engine, [SearchQuery((seed,), limit=_LIMIT) for seed in seeds], encoded)
        for name, spent in parts.items():
            if any(spent):
                yield share(f"search {kind}: {name}", spent, whole)


def _timed(
    engine: SearchEngine, queries: Sequence[SearchQuery], encoded: Sequence[Paper] | None
) -> tuple[list[float], dict[str, list[float]]]:
    """Return the seconds of each search and of its parts; time outside the stages is the rest.

    The papers ``encoded`` by the searches are encoded once more before, without the rest of that stage: after
    a search, its threads are still waiting for more work, and would slow the encoder down.
    """
    whole: list[float] = []
    parts: dict[str, list[float]] = {said: [] for said in _SAID.values()}
    parts["the rest: resolving the query, filters, strengths"] = rest = []
    parts["measured before it: the encoder alone"] = alone = []
    parts["measured after it: writing the answer as JSON"] = written = []
    for number, query in enumerate(queries):
        stages = Stages(lambda name, seconds: None, lambda name: nullcontext())
        context = copy_context()
        context.run(set_stages, stages)
        start = time.perf_counter()
        if encoded:
            engine.annotator.encoder.encode(encoded[number : number + 1])
        alone.append(time.perf_counter() - start if encoded else 0.0)
        start = time.perf_counter()
        answer = context.run(engine.search, query)
        whole.append(time.perf_counter() - start)
        spent = [stages.seconds.get(name, 0.0) for name in _STAGES]
        for name, seconds in zip(_STAGES, spent, strict=True):
            parts[_SAID[name]].append(seconds)
        rest.append(whole[-1] - sum(spent))
        start = time.perf_counter()
        SearchOut.written(answer)
        written.append(time.perf_counter() - start)
    return whole, parts


def before_encoding(encoder: Encoder, papers: Sequence[Paper], whole: Sequence[float]) -> Iterator[Row]:
    """Yield what comes before the encoder's network, as shares of the seconds of indexing the papers."""
    wordpieces = encoder._transformer.wordpieces  # type: ignore[attr-defined]  # noqa: SLF001 - of minilm
    parts: dict[str, Callable[[], object]] = {
        "splitting abstracts into sentences": lambda: [split_sentences(paper.abstract) for paper in papers],
        "tokenising": partial(wordpieces.tokenise, papers),
    }
    for part, spent in in_turns(parts, rounds=len(whole)).items():
        what = f"index {len(papers):,} papers: {part}"
        yield share(what, spent, whole, scale=1000 / len(papers), unit="ms a paper")


def of_pages(engine: SearchEngine, data: Path, ids: Sequence[str]) -> Iterator[Row]:
    """Yield what validation and a page of results take besides the search by id, as shares of it."""
    measured = {
        "the search": (SearchEngine, "search"),
        "views of the results": (page, "_views"),
        "filling the template": (page, "render"),
    }
    with client_of(data, engine, cache_mib=0, rate=0) as client:
        client.get("/", params={"paper": ids[0]}).raise_for_status()
        with _seconds_of_calls(measured) as spent:
            for each in ids[:_QUERIES]:
                client.get("/", params={"paper": each, "n": _LIMIT}).raise_for_status()
    whole = spent.pop("the search")
    bodies = [f'{{"query": {{"paper_id": "{each}"}}, "limit": {_LIMIT}}}' for each in ids[:_QUERIES]]
    spent["validating the request, as JSON"] = validated = []
    for body in bodies:
        start = time.perf_counter()
        SearchIn.model_validate_json(body).to_query()
        validated.append(time.perf_counter() - start)
    for part, seconds in spent.items():
        yield share(f"a page of {_LIMIT} results: beside the search: {part}", seconds, whole)


@contextmanager
def _seconds_of_calls(measured: Mapping[str, tuple[Any, str]]) -> Iterator[dict[str, list[float]]]:
    """Measure each call of functions, given as module or class and name, within the context."""
    spent: dict[str, list[float]] = {said: [] for said in measured}

    def timed(said: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*given, **named)
            finally:
                spent[said].append(time.perf_counter() - start)

        return call

    with ExitStack() as stack:
        for said, (where, name) in measured.items():
            stack.enter_context(patch.object(where, name, timed(said, getattr(where, name))))
        yield spent
