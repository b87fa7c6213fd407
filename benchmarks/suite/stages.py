"""Where the time of a search goes: the time of each stage, and of writing the answer.

The parts are measured during the searches, as in the service's metrics, or right after them.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from contextvars import copy_context
from typing import Final

import numpy as np

from benchmarks.suite.rows import OURS, STAGES, WHOLE, Row, beside
from models.types import Paper
from service.api.schemas.search.results import SearchOut
from service.context import Stages, set_stages
from service.resolve.text_query import one_sentence
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed

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
                yield beside(
                    {OURS: spent, WHOLE: whole},
                    WHOLE,
                    goal=STAGES,
                    what=f"search {kind}: {name}",
                    inverted=True,
                )


def _timed(
    engine: SearchEngine, queries: Sequence[SearchQuery], encoded: Sequence[Paper] | None
) -> tuple[list[float], dict[str, list[float]]]:
    """Return the seconds of each search and of its parts; time outside the stages is the rest.

    The papers ``encoded`` by the searches are encoded once more, without the rest of that stage.
    """
    whole: list[float] = []
    parts: dict[str, list[float]] = {said: [] for said in _SAID.values()}
    parts["the rest: resolving the query, filters, strengths"] = rest = []
    parts["beside it: the encoder alone"] = alone = []
    parts["beside it: writing the answer as JSON"] = written = []
    for number, query in enumerate(queries):
        stages = Stages(lambda name, seconds: None, lambda name: nullcontext())
        context = copy_context()
        context.run(set_stages, stages)
        start = time.perf_counter()
        answer = context.run(engine.search, query)
        whole.append(time.perf_counter() - start)
        spent = [stages.seconds.get(name, 0.0) for name in _STAGES]
        for name, seconds in zip(_STAGES, spent, strict=True):
            parts[_SAID[name]].append(seconds)
        rest.append(whole[-1] - sum(spent))
        start = time.perf_counter()
        if encoded:
            engine.annotator.encoder.encode(encoded[number : number + 1])
        alone.append(time.perf_counter() - start if encoded else 0.0)
        start = time.perf_counter()
        SearchOut.written(answer)
        written.append(time.perf_counter() - start)
    return whole, parts
