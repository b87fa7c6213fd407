"""Tests of a cluster of three nodes: it answers like one machine, and survives kills under load."""

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, count, cycle, islice
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from indexer.catalog.catalog import Catalog
from indexer.cluster import connect
from indexer.collection.delete import delete_papers
from indexer.collection.growth import Bounds
from indexer.collection.publishing import served_generation
from indexer.encoding.on_cluster import EncodeOnCluster
from indexer.encoding.parts import Part
from indexer.files.data_folder import CATALOG_FILE, DataFolder
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.types import Facet, Filters
from service.cluster.shards import Shards
from service.cluster.snapshot import ShardedSnapshot
from service.search.aspect import Aspect, Contrast
from service.search.engine import SearchEngine
from service.search.query import SearchAnswer, SearchQuery, Seed
from tests.support.annotators import hashing_annotator
from tests.support.builds import ROOT, build_quietly, many_papers, write_corpus
from tests.support.servers.patience import soon
from tests.support.servers.processes import AKIN_WITHOUT_WEIGHTS, service_process
from tests.support.servers.ray import RayCluster
from tests.support.trials.settings import print_figure, trials

pytestmark = pytest.mark.trial
SIZES = (300, 260, 210, 170, 140, 120)
N_PAPERS, N_QUERIES = sum(SIZES), 500
N_KILLS = trials(10)  # of each kind
N_SWAPS = 10


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a collection of several segments."""
    return collection(tmp_path_factory.mktemp("trial"), hashing)


def collection(folder: Path, encoder: Encoder, **arguments: object) -> Path:
    """Make a collection of segments of different sizes, so that coverage tells which are away."""
    papers = iter(many_papers(N_PAPERS))
    for size in SIZES:
        corpus = write_corpus(folder / "c.jsonl", list(islice(papers, size)))
        build_quietly(corpus, folder / "data", encoder, **arguments)
    return folder / "data"


@pytest.fixture
def here(data: Path) -> SearchEngine:
    """Return an engine on one machine."""
    return SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=50)


@dataclass(slots=True)
class Nodes:
    """A cluster of three nodes, and the nodes other than the head by id."""

    cluster: RayCluster
    ids: dict[str, Any] = field(default_factory=dict)

    def add(self, ray: Any) -> None:
        """Add a node, and wait until it is alive."""
        known = {each["NodeID"] for each in ray.nodes() if each["Alive"]}
        node = self.cluster.add_node()
        soon(lambda: len({each["NodeID"] for each in ray.nodes() if each["Alive"]} - known) == 1)
        (new,) = {each["NodeID"] for each in ray.nodes() if each["Alive"]} - known
        self.ids[new] = node


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch, ray_environment: None) -> Iterator[Nodes]:
    """Yield three nodes, started as in docs/how-to/deploy.md."""
    with RayCluster() as cluster:
        ray = connect(cluster.address)
        own = Nodes(cluster)
        for _ in range(2):
            own.add(ray)
        yield own
        ray.shutdown()


Held = Callable[[Shards], Shards]


@pytest.fixture
def held(nodes: Nodes) -> Iterator[Held]:
    """Yield a function that closes shards before their cluster ends."""
    with ExitStack() as ending:

        def hold(shards: Shards) -> Shards:
            ending.callback(shards.close)
            return shards

        yield hold


def engine_of(data: Path, shards: Shards) -> SearchEngine:
    """Return an engine on the cluster."""
    return SearchEngine(ShardedSnapshot(open_snapshot(data), shards), hashing_annotator, n_candidates=50)


def queries(engine: SearchEngine) -> Iterator[SearchQuery]:
    """Yield whole abstracts, facets, contrast, several seeds and texts in turn."""
    snapshot = engine.snapshot
    papers = cycle([snapshot.paper(int(each)) for each in snapshot.positions[::7]])
    facets = cycle((Facet.BACKGROUND, Facet.METHOD, Facet.RESULT))
    while True:
        first, second = next(papers), next(papers)
        yield SearchQuery((Seed(first.id),))
        yield SearchQuery((Seed(first.id, aspect=Aspect(facets=(next(facets),))),))
        unlike = Contrast(sentences=(0,))
        yield SearchQuery((Seed(second.id, aspect=Aspect(sentences=(1, 2), unlike=unlike)),))
        yield SearchQuery((Seed(first.id), Seed(second.id)), negatives=(Seed(next(papers).id),))
        yield SearchQuery((Seed(text=second.sentences[-1].text),), limit=30)
        yield SearchQuery((Seed(paper=replace(first, id="")),), omit_pasted=True)


def plain(answer: SearchAnswer) -> str:
    """Return an answer as text, except for the time it took."""
    return repr(replace(answer, took_ms=0.0))


@pytest.mark.parametrize("backend", ["exact", "ivfpq"])
def test_500_queries_answer_as_on_one_machine(
    backend: str, tmp_path: Path, hashing: Encoder, nodes: Nodes, held: Held
) -> None:
    """500 queries have bit for bit the same answers as on one machine; both times are printed."""
    data = collection(tmp_path, hashing, backend=backend)
    here = SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=50)
    assert {backend} == {each.entry.backend for each in here.snapshot.segments}
    shards = held(Shards(nodes.cluster.address, data, join_s=0.0))
    there = engine_of(data, shards)
    assert 3 == shards.n_shards
    times: dict[str, list[float]] = {"here": [], "there": []}
    n_empty = 0
    for query in islice(queries(here), N_QUERIES):
        answers = []
        for name, engine in (("here", here), ("there", there)):
            started = time.perf_counter()
            answers.append(engine.search(query))
            times[name].append(1000 * (time.perf_counter() - started))
        assert plain(answers[0]) == plain(answers[1])
        n_empty += not answers[0].results
    for name, own in times.items():
        print_figure(f"{name}: median {statistics.median(own):.1f} ms, p95 {np.percentile(own, 95):.1f} ms")
    print_figure(f"{backend}: {N_QUERIES} queries equal, {n_empty} of them without results")


@dataclass(slots=True)
class Load:
    """A query repeated until stopped; answers must be those for their coverage."""

    engine: SearchEngine
    query: SearchQuery
    expected: Mapping[float, str]
    n_answers: Counter[float] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Search until stopped."""
        while not self.stopped.is_set():
            started = time.monotonic()
            try:
                answer = self.engine.search(self.query)
            except Exception as error:  # noqa: BLE001 - told at the end
                self.errors.append(f"{type(error).__name__}: {error}")
                time.sleep(0.05)
                continue
            finally:
                self.slowest_s = max(self.slowest_s, time.monotonic() - started)
            self.n_answers[round(answer.coverage, 6)] += 1
            found = repr([(each.paper.id, each.score) for each in answer.results])
            if found != self.expected.get(round(answer.coverage, 6)):
                self.wrong.append(f"{answer.coverage}: {found}")


@dataclass(slots=True)
class Kill:
    """A kill under load: seconds until it was noticed and until all was covered again, and the answers."""

    noticed_s: float
    full_s: float
    load: Load

    @classmethod
    def of(cls, kill: Callable[[], None], there: SearchEngine, expected: Mapping[float, str]) -> "Kill":
        """Call ``kill`` under load; check that no answer fails or is wrong, and that coverage is reported."""
        snapshot = there.snapshot
        load = Load(there, SearchQuery((Seed(snapshot.paper(3).id),)), expected)
        threads = [threading.Thread(target=load.run) for _ in range(2)]
        for thread in threads:
            thread.start()
        soon(lambda: load.n_answers.total() > 5)
        started = time.monotonic()
        kill()
        soon(lambda: bool(snapshot.away), every_s=0.01)
        noticed_s = time.monotonic() - started
        soon(lambda: not snapshot.away, every_s=0.01)
        full_s = time.monotonic() - started
        n_now = load.n_answers.total()
        soon(lambda: load.n_answers.total() > n_now + 5)
        load.stopped.set()
        for thread in threads:
            thread.join()
        assert not load.wrong, load.wrong[0]
        assert not load.errors, load.errors[:3]
        assert min(load.n_answers) < 1 == max(load.n_answers)
        return cls(noticed_s, full_s, load)


def kills_table(kills: dict[str, list[Kill]]) -> str:
    """Return the kills as a table, a line for each kind, with the median and the worst of its times."""
    lines = ["| killed | times | noticed, s | full again, s | slowest answer, s | partial answers |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for kind, own in kills.items():
        times = [(each.noticed_s, each.full_s, each.load.slowest_s) for each in own]
        cells = [f"{statistics.median(each):.1f}, {max(each):.1f}" for each in zip(*times, strict=True)]
        counts = sum((each.load.n_answers for each in own), Counter[float]())
        partial_answers = f"{counts.total() - counts[1.0]:,} of {counts.total():,}"
        lines.append(f"| {kind} | {len(own)} | {' | '.join(cells)} | {partial_answers} |")
    return "\n".join(lines)


def of_parts(here: SearchEngine, there: SearchEngine) -> dict[float, str]:
    """Return the results with all shards and with some of them away, by coverage."""
    snapshot = there.snapshot
    assert isinstance(snapshot, ShardedSnapshot)
    query = SearchQuery((Seed(snapshot.paper(3).id),))
    expected = {}
    shards = range(snapshot.shards.n_shards)
    some = [away for n in range(len(shards)) for away in combinations(shards, n)]
    for away in some:
        gone = [number for number, home in enumerate(snapshot.held.shard_by_segment) if home in away]
        there_now = ~snapshot.papers_of(gone) & snapshot.live
        ids = frozenset(snapshot.paper(int(each)).id for each in np.flatnonzero(there_now))
        own_query = replace(query, filters=Filters(ids=ids)) if away else query
        found = repr([(each.paper.id, each.score) for each in here.search(own_query).results])
        expected[round(float(there_now.sum() / len(snapshot)), 6)] = found
    assert len(some) == len(expected), "two sets of shards have the same coverage"
    return expected


def test_shards_and_nodes_are_killed_under_load(data: Path, nodes: Nodes, here: SearchEngine) -> None:
    """After a shard or a node is killed, answers are right for their coverage, which is full again."""
    ray = connect("")
    kills: dict[str, list[Kill]] = {"a shard": [], "a node": []}
    for number in range(N_KILLS):
        with closing(Shards(nodes.cluster.address, data, join_s=0.0)) as shards:
            there = engine_of(data, shards)
            there.warm_up()
            expected = of_parts(here, there)
            victims = list(shards.replicas)
            pid = ray.get(victims[number % len(victims)].actor.pid.remote())
            kills["a shard"].append(Kill.of(partial(os.kill, pid, signal.SIGKILL), there, expected))
            machine = next(each.machine for each in victims if each.machine in nodes.ids)
            kills["a node"].append(Kill.of(nodes.ids.pop(machine).kill, there, expected))
        nodes.add(ray)
    print_figure(kills_table(kills))


def test_with_two_processes_a_shard_nothing_is_missing(
    data: Path, nodes: Nodes, here: SearchEngine, held: Held
) -> None:
    """With two processes per shard, every answer is complete while one of each shard is killed."""
    shards = held(Shards(nodes.cluster.address, data, n_replicas=2, join_s=0.0))
    there = engine_of(data, shards)
    there.warm_up()
    ray = connect("")
    load = Load(there, SearchQuery((Seed(there.snapshot.paper(3).id),)), of_parts(here, there))
    thread = threading.Thread(target=load.run)
    thread.start()
    for replica in list(shards.replicas)[::2]:
        os.kill(ray.get(replica.actor.pid.remote()), signal.SIGKILL)
        soon(lambda each=replica: not each.opened, every_s=0.01)  # type: ignore[misc]
        soon(lambda each=replica: bool(each.opened), every_s=0.05)  # type: ignore[misc]
    load.stopped.set()
    thread.join()
    print_figure(
        f"two processes a shard: {dict(load.n_answers)}, slowest {load.slowest_s:.1f} s, {load.errors[:3]}"
    )
    assert [1.0] == list(load.n_answers)
    assert not load.wrong
    assert not load.errors


def test_generations_are_swapped_under_load(data: Path, nodes: Nodes, held: Held, tmp_path: Path) -> None:
    """While generations are swapped, every answer is complete and that of the generation it names."""
    own = Path(shutil.copytree(data, tmp_path / "data"))
    shards = held(Shards(nodes.cluster.address, own, join_s=0.0))
    served = [engine_of(own, shards)]
    query = SearchQuery((Seed(text=served[0].snapshot.paper(3).sentences[0].text),), limit=30)
    answers: list[SearchAnswer] = []
    stopped = threading.Event()

    def ask() -> None:
        while not stopped.is_set():
            answers.append(served[-1].search(query))

    thread = threading.Thread(target=ask)
    thread.start()
    expected = {}
    with Catalog.open(own / CATALOG_FILE) as catalog:
        for _ in range(N_SWAPS):
            here = SearchEngine(open_snapshot(own), hashing_annotator, n_candidates=50)
            found = here.search(query)
            expected[found.generation] = plain(found)
            # Its first result is deleted, so that each generation has another answer.
            delete_papers(own, [found.results[0].paper.id], catalog, keep=3)
            served.append(engine_of(own, shards))
            served.pop(0)
            n_now = len(answers)
            soon(lambda n=n_now: len(answers) > n + 3)  # type: ignore[misc]
    stopped.set()
    thread.join()
    wrong = [each for each in answers if plain(each) != expected.get(each.generation, plain(each))]
    print_figure(
        f"{N_SWAPS} swaps: {len(answers)} answers of {len(expected)} generations, {len(wrong)} wrong"
    )
    assert not wrong
    assert {1.0} == {each.coverage for each in answers}
    assert len({each.generation for each in answers}) >= N_SWAPS


def test_encoding_goes_on_when_its_processes_are_killed(
    nodes: Nodes, tmp_path: Path, hashing: Encoder
) -> None:
    """If encoding processes are killed every few parts, the collection is the same."""
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(400))
    bounds, killed_pids = Bounds(part=10), []
    encode = EncodeOnCluster(nodes.cluster.address, hashing_annotator)
    ray = connect("")

    def encoding(*given: Any, **named: Any) -> Callable[[], Part]:
        begun = encode(*given, **named)
        encoding.n_parts += 1  # type: ignore[attr-defined]  # kept with what it counts
        if encoding.n_parts % 8 == 0:  # type: ignore[attr-defined]  # the same
            pid = ray.get(encode.actors[len(killed_pids) % len(encode.actors)].pid.remote())
            os.kill(pid, signal.SIGKILL)
            killed_pids.append(pid)
        return begun

    encoding.at_once, encoding.n_parts = encode.at_once, 0  # type: ignore[attr-defined]  # as Encode has it
    build_quietly(corpus, tmp_path / "here", hashing, bounds=bounds)
    with encode:
        build_quietly(corpus, tmp_path / "there", hashing, bounds=bounds, encode=encoding)
    here, there = (open_snapshot(tmp_path / name) for name in ("here", "there"))
    print_figure(f"{len(killed_pids)} processes killed while {len(there):,} papers were encoded")
    assert len(killed_pids) >= 3
    for one, other in zip(here.segments, there.segments, strict=True):
        assert one.entry.files == other.entry.files


def test_an_index_on_a_cluster_that_was_killed_resumes(nodes: Nodes, tmp_path: Path) -> None:
    """Given again, `akin index --ray` encodes what is missing; the collection is that of one machine."""
    corpus, data = write_corpus(tmp_path / "c.jsonl", many_papers(8_000)), DataFolder(tmp_path / "there")
    index = [sys.executable, "-m", "akin", "index", str(corpus), "--encoder", "hashing", "--device", "cpu"]
    run = partial(subprocess.run, cwd=ROOT, capture_output=True, text=True, check=True)
    run([*index, "--data", str(tmp_path / "here")])
    index += ["--data", str(data.root), "--ray", nodes.cluster.address]
    indexing = subprocess.Popen(index, cwd=ROOT, stderr=subprocess.DEVNULL)
    soon(lambda: len([*data.building.glob("*/part-*")]) >= 2, every_s=0.01)
    indexing.kill()
    indexing.wait()
    assert served_generation(data.root) is None
    reused = re.search(r"([\d,]+) papers had been encoded before", run(index).stdout)
    assert reused
    print_figure(f"killed after {reused[1]} of 8,000 papers")
    here, there = (open_snapshot(tmp_path / name) for name in ("here", "there"))
    assert 8_000 == len(here) == len(there)
    for one, other in zip(here.segments, there.segments, strict=True):
        assert one.entry.files == other.entry.files


def test_a_cluster_without_a_token_is_refused(ray_environment: None) -> None:
    """The error for machines that were started without a token says how to start them."""
    with RayCluster(RAY_AUTH_MODE="disabled", RAY_AUTH_TOKEN="") as cluster:
        join = f"from indexer.cluster import connect; connect({cluster.address!r})"
        done = subprocess.run(
            [sys.executable, "-c", join], cwd=ROOT, capture_output=True, text=True, check=False
        )
    assert 1 == done.returncode
    assert "start Ray on every machine with RAY_AUTH_MODE=token" in done.stderr


def test_the_head_is_killed(data: Path, ray_environment: None) -> None:
    """After the head is killed, the service goes on for a while and ends, to be restarted with the head."""
    with RayCluster() as cluster:
        cluster.add_node()
        given = {"AKIN_RAY": cluster.address, "AKIN_SHARDS": "2", "PYTHONPATH": str(ROOT), "AKIN_RATE": "0"}
        with service_process(data, program=AKIN_WITHOUT_WEIGHTS, **given) as (process, client):
            texts = (f"We propose method {number}." for number in count())  # no text is in the cache
            questions = ({"query": {"text": text}, "limit": 3} for text in texts)
            assert 1 == client.post("/v1/search", json=next(questions)).json()["coverage"]
            cluster.head.kill()
            started, outcomes = time.monotonic(), Counter[str]()
            while process.poll() is None and time.monotonic() - started < 120:
                try:
                    answer = client.post("/v1/search", json=next(questions))
                    content = answer.json()
                    what = f"{answer.status_code} {content.get('coverage', content.get('type'))}"
                except httpx.HTTPError as error:
                    what = type(error).__name__
                if what not in outcomes:
                    print_figure(f"{time.monotonic() - started:.1f} s after the head was killed: {what}")
                outcomes[what] += 1
                time.sleep(0.2)
            ended_s = time.monotonic() - started
            print_figure(f"ended after {ended_s:.0f} s with {process.poll()}; {dict(outcomes)}")
            assert process.poll() is not None
