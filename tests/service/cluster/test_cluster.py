"""Tests of a collection on a Ray cluster: answers equal to those of one machine, and partial ones."""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.cluster import connect, expect_reachable
from indexer.collection.growth import Bounds
from indexer.encoding.on_cluster import EncodeOnCluster
from indexer.encoding.parts import Part
from indexer.snapshot.opening import open_snapshot
from models.annotator import Annotator
from models.encoder import Encoder, load_encoder
from models.errors import (
    EncoderError,
    EncoderMismatchError,
    InputError,
    ShardAwayError,
    SnapshotMissingError,
    WeightsError,
)
from models.types import Facet, Filters
from service.answer_warnings import WarningCode
from service.api.answers import Answers
from service.api.schemas.search.results import SearchOut
from service.cache.store import Cache
from service.cluster.shards import Shards
from service.cluster.snapshot import ShardedSnapshot
from service.search.aspect import Aspect, Contrast
from service.search.engine import SearchEngine
from service.search.query import SearchAnswer, SearchQuery, Seed
from service.search.sentences import Likeness, SentenceQuery, search_sentences
from tests.support.annotators import KeywordTagger, hashing_annotator
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.servers.patience import soon
from tests.support.servers.ray import RayCluster

pytestmark = pytest.mark.system

N_PAPERS = 30


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, sentence_annotator: Annotator) -> Path:
    """Return a collection of three segments, with replaced papers."""
    folder = tmp_path_factory.mktemp("sharded")
    papers = many_papers(N_PAPERS)
    for first in (0, 10, 19):
        add(papers[first : first + 12], folder / "data", sentence_annotator)
    return folder / "data"


def add(papers: Sequence[dict[str, Any]], data: Path, made_by: Annotator) -> None:
    """Index some papers."""
    corpus = write_corpus(data.parent / "c.jsonl", papers)
    given = {"tagger": made_by.tagger, "functions": made_by.functions}
    build_quietly(corpus, data, made_by.encoder, **given)  # type: ignore[arg-type]  # as it takes them


@pytest.fixture(scope="module")
def shards(ray_cluster: RayCluster, data: Path) -> Iterator[Shards]:
    """Yield two shards."""
    shards = Shards(ray_cluster.address, data, n_shards=2, look_s=0.1, join_s=0.0)
    yield shards
    shards.close()


@pytest.fixture(scope="module")
def here(data: Path, sentence_annotator: Annotator) -> SearchEngine:
    """Return the engine on one machine."""
    return SearchEngine(open_snapshot(data), lambda: sentence_annotator, n_candidates=20)


@pytest.fixture(scope="module")
def there(data: Path, shards: Shards, sentence_annotator: Annotator) -> SearchEngine:
    """Return the engine on the cluster."""
    snapshot = ShardedSnapshot(open_snapshot(data), shards)
    return SearchEngine(snapshot, lambda: sentence_annotator, n_candidates=20)


def queries(engine: SearchEngine) -> dict[str, SearchQuery]:
    """Return a query of each kind."""
    first, second = (engine.snapshot.paper(int(position)) for position in engine.snapshot.positions[[5, 25]])
    others = frozenset(engine.snapshot.paper(int(position)).id for position in engine.snapshot.positions[::2])
    pasted = replace(second, id="")
    unlike = Aspect(sentences=(2, 3), unlike=Contrast(sentences=(0,)))
    return {
        "whole abstract": SearchQuery((Seed(first.id),)),
        "facet": SearchQuery((Seed(first.id, aspect=Aspect(facets=(Facet.BACKGROUND,))),)),
        "sentences": SearchQuery((Seed(second.id, aspect=Aspect(sentences=(1, 2))),)),
        "contrast": SearchQuery((Seed(first.id, aspect=unlike),)),
        "pasted": SearchQuery((Seed(paper=pasted),), omit_pasted=True),
        "text": SearchQuery((Seed(text="We propose a method for whales."),)),
        "several": SearchQuery((Seed(first.id), Seed(second.id)), negatives=(Seed(text="graphs"),)),
        "filtered": SearchQuery((Seed(first.id),), filters=Filters(exclude_ids=others), words=0.0),
        "long list": SearchQuery((Seed(second.id),), limit=28),
    }


def without_time(answer: SearchAnswer) -> SearchAnswer:
    """Return the answer without the time it took."""
    return replace(answer, took_ms=0.0)


def same(one: SearchAnswer, other: SearchAnswer) -> bool:
    """Return whether two answers are equal to the bit, except for the time."""
    return repr(without_time(one)) == repr(without_time(other))


def test_the_cluster_answers_as_one_machine(here: SearchEngine, there: SearchEngine) -> None:
    """Every kind of query has the same answer to the bit as on one machine; each shard has segments."""
    assert {0, 1} == set(there.snapshot.held.shard_by_segment)  # type: ignore[attr-defined]  # a sharded one
    for kind, query in queries(here).items():
        answer = there.search(query)
        assert answer.results, kind
        assert same(here.search(query), answer), kind
        assert 1 == answer.coverage


def test_sentences_are_found_on_the_cluster(here: SearchEngine, there: SearchEngine) -> None:
    """Sentence search finds the same sentences as on one machine, by meaning and by function."""
    for by in Likeness:
        query = SentenceQuery(text="We propose a method.", by=by, limit=30)
        answers = [replace(search_sentences(each, query), took_ms=0.0) for each in (here, there)]
        assert answers[0].results
        assert answers[0] == answers[1]


def test_a_killed_shard_is_reported_and_comes_back(
    here: SearchEngine, there: SearchEngine, shards: Shards
) -> None:
    """While a shard is dead, answers are those of a filter for the other papers, and state their share."""
    snapshot = there.snapshot
    query = queries(here)["whole abstract"]
    there.search(query)  # measures the scale of its results now
    (victim, _) = shards.replicas
    ray = connect("")
    os.kill(ray.get(victim.actor.pid.remote()), signal.SIGKILL)
    soon(lambda: bool(snapshot.away), every_s=0.001)
    answer = there.search(query)
    reached = ~snapshot.papers_of(
        [number for number, home in enumerate(snapshot.held.shard_by_segment) if home == victim.shard]  # type: ignore[attr-defined]
    )
    expected = float((reached & snapshot.live).sum() / len(snapshot))
    assert expected == answer.coverage
    assert [WarningCode.PARTIAL_COVERAGE] == [each.code for each in answer.warnings]
    ids = frozenset(snapshot.paper(int(position)).id for position in np.flatnonzero(reached & snapshot.live))
    filtered = here.search(replace(query, filters=Filters(ids=ids)))
    assert [each.paper.id for each in filtered.results] == [each.paper.id for each in answer.results]
    assert [each.score for each in filtered.results] == [each.score for each in answer.results]
    assert shards.degradations()
    answers = Answers(Cache(memory_mib=1), device="cpu", precision="float32")

    def kept() -> float:
        content = answers.content(there, query, lambda: SearchOut.of(there.search(query)), reads_text=False)
        return float(json.loads(content)["coverage"])

    assert kept() in {expected, 1}
    soon(lambda: not snapshot.away)
    assert 1 == kept()  # the partial answer was not kept
    assert same(here.search(query), there.search(query))
    assert not shards.degradations()


def test_a_generation_that_no_shard_has_is_away(
    data: Path, shards: Shards, there: SearchEngine, sentence_annotator: Annotator
) -> None:
    """A shard answers for the generation of the query, and drops generations that are no longer used."""
    older = ShardedSnapshot(open_snapshot(data, "000001"), shards)
    engine = SearchEngine(older, lambda: sentence_annotator, n_candidates=20)
    query = SearchQuery((Seed(text="whales"),))
    assert ("000001", there.snapshot.generation) == (
        engine.search(query).generation,
        there.search(query).generation,
    )
    generation, ray = older.held.generation, connect("")
    placed = shards.shard_by_segment(generation)
    (first, second) = shards.replicas
    del older, engine
    soon(lambda: all(generation not in ray.get(each.actor.opened.remote()) for each in (first, second)))
    with pytest.raises(SnapshotMissingError):
        ray.get(first.actor.search.remote(generation, []))
    with pytest.raises(ShardAwayError):
        shards.call("search", generation, {placed["000001"]: []})


def test_with_two_processes_a_shard_nothing_is_missing(
    ray_cluster: RayCluster, data: Path, here: SearchEngine, sentence_annotator: Annotator
) -> None:
    """With two replicas, all answers are complete while one is dead."""
    query = queries(here)["whole abstract"]
    with closing(
        Shards(ray_cluster.address, data, n_shards=1, n_replicas=2, look_s=0.1, join_s=0.0)
    ) as shards:
        snapshot = ShardedSnapshot(open_snapshot(data), shards)
        there = SearchEngine(snapshot, lambda: sentence_annotator, n_candidates=20)
        assert same(here.search(query), there.search(query))
        (victim, _) = shards.replicas
        os.kill(connect("").get(victim.actor.pid.remote()), signal.SIGKILL)
        soon(lambda: not victim.opened, every_s=0.001)
        assert same(here.search(query), there.search(query))
        soon(lambda: bool(victim.opened))
        assert same(here.search(query), there.search(query))


def test_a_process_that_hangs_holds_no_generation_back(
    ray_cluster: RayCluster, data: Path, here: SearchEngine, sentence_annotator: Annotator
) -> None:
    """While one of two processes hangs, the next generation is served; the process is killed and replaced."""
    query = queries(here)["whole abstract"]
    given: dict[str, Any] = {"look_s": 0.1, "answer_s": 0.5, "hang_s": 1.0, "join_s": 0.0}
    with (
        closing(Shards(ray_cluster.address, data, n_shards=1, n_replicas=2, **given)) as shards,
        ThreadPoolExecutor(1) as thread,
    ):
        older = ShardedSnapshot(open_snapshot(data, "000001"), shards)
        (victim, _) = shards.replicas
        soon(lambda: bool(victim.opened and victim.heard_at))
        pid = connect("").get(victim.actor.pid.remote())
        os.kill(pid, signal.SIGSTOP)
        try:
            sharded = thread.submit(ShardedSnapshot, open_snapshot(data), shards).result(60)
            there = SearchEngine(sharded, lambda: sentence_annotator, n_candidates=20)
            assert same(here.search(query), there.search(query))
            served = {older.held.generation, sharded.held.generation}
            soon(lambda: victim.opened == served)
            assert pid != connect("").get(victim.actor.pid.remote())
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_generation_is_swapped_on_the_cluster(
    ray_cluster: RayCluster, data: Path, sentence_annotator: Annotator, tmp_path: Path
) -> None:
    """Before and after a swap, each generation has the same answers as on one machine."""
    own, more = Path(shutil.copytree(data, tmp_path / "data")), many_papers(N_PAPERS + 6)[N_PAPERS:]
    query = SearchQuery((Seed(text=more[0]["abstract"][0]),), limit=30)
    served = []  # keeps all generations on their shard
    with closing(Shards(ray_cluster.address, own, n_shards=1, look_s=0.1, join_s=0.0)) as shards:
        for papers in (more[:3], more[3:]):
            one = SearchEngine(open_snapshot(own), lambda: sentence_annotator, n_candidates=50)
            sharded = ShardedSnapshot(open_snapshot(own), shards)
            there = SearchEngine(sharded, lambda: sentence_annotator, n_candidates=50)
            served.append(there)
            found = one.search(query)
            assert same(found, there.search(query))
            add(papers, own, sentence_annotator)
            assert same(found, there.search(query))


def test_a_cluster_that_is_not_there_is_refused() -> None:
    """The error for an unreachable cluster says that it cannot be joined."""
    with pytest.raises(InputError, match="Cannot join the Ray cluster"):
        expect_reachable("127.0.0.1:1")


def test_models_that_do_not_load_on_the_cluster_are_reported(
    ray_cluster: RayCluster, tmp_path: Path, hashing: Encoder
) -> None:
    """The error for models that do not load has the reason and where they must be."""

    def broken() -> Annotator:
        raise WeightsError("/models/mine is not there.")

    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(3))
    with (
        EncodeOnCluster(ray_cluster.address, broken) as encode,
        pytest.raises(
            EncoderError, match=r"\(.*/models/mine is not there\.\); models must be at the same path"
        ),
    ):
        build_quietly(corpus, tmp_path / "data", hashing, encode=encode)


def test_other_models_on_the_cluster_are_refused(
    ray_cluster: RayCluster, tmp_path: Path, hashing: Encoder
) -> None:
    """If a machine has other models under the same names, nothing that it encodes is stored."""

    def other() -> Annotator:
        return Annotator(load_encoder("hashing"), tagger=KeywordTagger("other"))

    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(3))
    with (
        EncodeOnCluster(ray_cluster.address, other) as encode,
        pytest.raises(EncoderMismatchError, match="a machine of the cluster, has other models"),
    ):
        build_quietly(corpus, tmp_path / "data", hashing, encode=encode)


def test_encoding_on_the_cluster_makes_the_same_collection(
    ray_cluster: RayCluster, tmp_path: Path, hashing: Encoder
) -> None:
    """Encoding on the cluster gives bit for bit the same papers and vectors in the same segments."""
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(30))
    bounds = Bounds(part=8)
    encode = EncodeOnCluster(ray_cluster.address, hashing_annotator)
    begun = []

    def encoding(*given: Any, **named: Any) -> Callable[[], Part]:
        begun.append(given)
        return encode(*given, **named)

    encoding.at_once = encode.at_once  # type: ignore[attr-defined]  # as Encode has it
    build_quietly(corpus, tmp_path / "here", hashing, bounds=bounds)
    with encode:
        build_quietly(corpus, tmp_path / "there", hashing, bounds=bounds, encode=encoding)
    assert 4 == len(begun)
    here, there = (open_snapshot(tmp_path / name) for name in ("here", "there"))
    for one, other in zip(here.segments, there.segments, strict=True):
        assert np.array_equal(one.vectors.rows, other.vectors.rows)
        assert np.array_equal(one.vectors.offsets, other.vectors.offsets)
    assert [here.paper(i) for i in range(30)] == [there.paper(i) for i in range(30)]
