"""Trials that kill writers at a step and check the collection: nothing is torn, lost or back again.

A trial copies a small collection, forks a process that changes it, and kills it with SIGKILL: at its n-th
step, which is the n-th time that it opens, makes, links, moves or removes a file or runs a database
statement; or after some time. Then another process opens the collection like a reader, continues like the
next writer, and compares the papers and their vectors with the acknowledged changes.
"""

import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
from sqlalchemy import event
from sqlalchemy.engine import Engine

from indexer.catalog.catalog import Catalog
from indexer.collection.build import build
from indexer.collection.changes import publish_pending
from indexer.collection.delete import delete_papers
from indexer.collection.growth import BOUNDS, Bounds
from indexer.collection.merging import Tiers, compact
from indexer.collection.merging import merge as merge_tiers
from indexer.collection.purge import purge_papers
from indexer.collection.reindex import prepare, publish_prepared, reindex_lock
from indexer.collection.rollback import rollback
from indexer.content_hash import content_hash
from indexer.encoding.arguments import BuildArguments
from indexer.files.data_folder import CATALOG_FILE, DataFolder
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.types import Paper, Sentence
from tests.support.annotators import hashing_annotator
from tests.support.builds import many_papers, papers_in, quiet, write_corpus

# The audit events of the interpreter that count as steps.
_STEPS = frozenset(
    {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.listdir", "os.scandir", "fcntl.flock"}
    | {"os.link"}
)
NEVER = 10**9
_TIMEOUT_S = 60
_WRONG_VECTORS = "not the vectors of its sentences"

# id -> content hash, or _WRONG_VECTORS
State = dict[str, str]
Acknowledge = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a trial: steps and seconds taken, whether the process was killed, and what is wrong."""

    operation: str
    step: int
    n_steps: int
    took_s: float
    killed: bool
    wrong: str


def make_collection(folder: Path) -> Path:
    """Make a collection in three segments, with papers deleted and replaced, and a corpus to add to it."""
    data = folder / "data"
    papers = many_papers(40)
    for run in (papers[:24], papers[24:30], [*papers[30:33], {**papers[3], "title": "Replaced"}]):
        index_corpus(write_corpus(folder / "c.jsonl", run), data)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, ["p1", "p25"], catalog, keep=3)
    more = [*papers[33:40], {**papers[5], "title": "Changed"}]
    write_corpus(data / "more.jsonl", more)
    return data


def index_corpus(corpus: Path, data: Path, bounds: Bounds = BOUNDS) -> None:
    """Add a corpus to a collection, which may be new."""
    arguments = BuildArguments(encoder="hashing", device="cpu")
    build([corpus], data, hashing_annotator(), arguments=arguments, on_progress=quiet, bounds=bounds)


def _paper(paper_id: str, text: str) -> Paper:
    return Paper(paper_id, text, text, (Sentence(text, 0, len(text)),))


_POSTED = [_paper("w1", "Whales sing."), _paper("p6", "Another paper now.")]


def add_corpus(data: Path, acknowledge: Acknowledge) -> None:
    """Run ``akin index MORE --data DATA``."""
    index_corpus(data / "more.jsonl", data)
    acknowledge()


def add_in_portions(data: Path, acknowledge: Acknowledge) -> None:
    """Run ``akin index MORE --data DATA --publish-every 3``."""
    index_corpus(data / "more.jsonl", data, Bounds(publish_every=3, part=2))
    acknowledge()


def replace_all(data: Path, acknowledge: Acknowledge) -> None:
    """Run ``akin index MORE --data DATA --replace``."""
    arguments = BuildArguments(encoder="hashing", device="cpu")
    build(
        [data / "more.jsonl"], data, hashing_annotator(), arguments=arguments, on_progress=quiet, replace=True
    )
    acknowledge()


def post(data: Path, acknowledge: Acknowledge) -> None:
    """Do what the service does for ``POST /v1/papers``, and then publish it, a paper at a time."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add(_POSTED)
        acknowledge()
        publish_pending(data, hashing_annotator(), catalog, on_progress=quiet, keep=3, at_once=1)


def unpost(data: Path, acknowledge: Acknowledge) -> None:
    """Do what the service does for ``DELETE /v1/papers/{id}``, and then publish it."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.delete(["p7"])
        acknowledge()
        publish_pending(data, hashing_annotator(), catalog, on_progress=quiet, keep=3)


def delete(data: Path, acknowledge: Acknowledge) -> None:
    """Run ``akin delete``."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, ["p8", "p31"], catalog, keep=3)
    acknowledge()


def merge(data: Path, acknowledge: Acknowledge) -> None:
    """Run ``akin compact``."""
    compact(data, open_snapshot(data), device="cpu", keep=3)
    acknowledge()


def merge_pairs(data: Path, acknowledge: Acknowledge) -> None:
    """Merge many segments, as the service does, and `akin index` at its end."""
    merge_tiers(data, tiers=Tiers(fewest=2), keep=3)
    acknowledge()


def go_back(data: Path, acknowledge: Acknowledge) -> None:
    """Run ``akin snapshot rollback``."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        rollback(data, catalog=catalog)
    acknowledge()


def reindex(data: Path, acknowledge: Acknowledge) -> None:
    """Run ``akin reindex --dtype float32``."""
    arguments = BuildArguments(encoder="hashing", device="cpu", dtype="float32")
    with reindex_lock(data), Catalog.open(data / CATALOG_FILE) as catalog:
        prepared = prepare(data, hashing_annotator(), catalog, arguments=arguments, on_progress=quiet)
        publish_prepared(data, prepared, hashing_annotator(), catalog, keep=3)
    acknowledge()


def purge(data: Path, acknowledge: Acknowledge) -> None:
    """Run ``akin purge``."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        purge_papers(data, ["p9", "p32"], catalog)
    acknowledge()


OPERATIONS: dict[str, Callable[[Path, Acknowledge], None]] = {
    "index": add_corpus,
    "index --replace": replace_all,
    "POST": post,
    "DELETE": unpost,
    "delete": delete,
    "compact": merge,
    "merge": merge_pairs,
    "index in portions": add_in_portions,
    "rollback": go_back,
    "reindex": reindex,
    "purge": purge,
}


def state_of(snapshot: Snapshot) -> State:
    """Return the papers that a reader finds, as id and content hash, or _WRONG_VECTORS instead of that."""
    positions = snapshot.positions.tolist()
    papers = [snapshot.paper(position) for position in positions]
    encoded = hashing_annotator().encoder.encode(papers)
    return {
        paper.id: (snapshot.content_hash(paper.id) or "")
        if np.array_equal(own.sentences.astype(snapshot.manifest.dtype), snapshot.vectors(position))
        else _WRONG_VECTORS
        for position, paper, own in zip(positions, papers, encoded, strict=True)
    }


def trial(
    template: Path, scratch: Path, operation: str, step: int = NEVER, *, after_s: float | None = None
) -> Outcome:
    """Run an operation on a copy of ``template``, killed at ``step`` or ``after_s``; check the result."""
    data = scratch / "data"
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(template, data)
    before = state_of(open_snapshot(template))
    acknowledged, counted = scratch / "acknowledged", scratch / "steps"
    started = time.perf_counter()
    status = in_child(
        lambda: killed_at(step, data, OPERATIONS[operation], acknowledged, counted), after_s=after_s
    )
    took_s = time.perf_counter() - started
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    n_steps = int(counted.read_bytes() or b"0") if counted.exists() else 0
    report = scratch / "report"
    after_child = in_child(
        lambda: report.write_bytes(
            orjson.dumps(_look(data, before, operation, done=acknowledged.exists(), whole=not killed))
        )
    )
    wrong = "the process that looked failed" if after_child else orjson.loads(report.read_bytes())
    if not killed and status:
        wrong = f"ended with status {status}"
    return Outcome(operation, step, n_steps, took_s, killed, wrong)


def _look(data: Path, before: State, operation: str, *, done: bool, whole: bool) -> str:
    """Return a description of what is wrong; empty if everything is right."""
    found = state_of(open_snapshot(data))  # verifies every file of the generation
    expected = expected_after(before, data, operation)
    allowed = [before, *between(before, data, operation), expected]
    if found not in allowed:
        return "a reader found neither the older nor the newer state"
    with Catalog.open(data / CATALOG_FILE) as catalog:
        manifest = publish_pending(data, hashing_annotator(), catalog, on_progress=quiet, keep=3).manifest
        finally_there = state_of(open_snapshot(data))
        in_catalog = {paper.id: content_hash(paper) for paper in papers_in(catalog).values()}
    if finally_there != in_catalog:
        return "what is served differs from the catalog after the next writer"
    if done and finally_there != expected:
        return "something acknowledged was lost, or came back"
    if finally_there not in allowed:
        return "only a part of the change was made"
    if manifest.generation not in DataFolder(data).generations():
        return "the served generation is not there"
    return ""


def expected_after(before: State, data: Path, operation: str) -> State:
    """Return the state after an operation is done."""
    after = dict(before)
    if operation.startswith("index"):
        added = {paper.id: content_hash(paper) for paper in _read(data / "more.jsonl")}
        return added if operation == "index --replace" else {**after, **added}
    if operation == "POST":
        after |= {paper.id: content_hash(paper) for paper in _POSTED}
    elif operation == "DELETE":
        del after["p7"]
    elif operation == "delete":
        del after["p8"], after["p31"]
    elif operation == "purge":
        del after["p9"], after["p32"]
    elif operation == "rollback":
        earlier = sorted(DataFolder(data).generations())
        served = "000004"  # the generation of the template
        return state_of(open_snapshot(data, max(name for name in earlier if name < served)))
    return after


def between(before: State, data: Path, operation: str) -> list[State]:
    """Return the complete states that an operation publishes on its way."""
    if operation == "POST":
        return [before | {paper.id: content_hash(paper)} for paper in _POSTED[:1]]
    if operation != "index in portions":
        return []
    added = [(paper.id, content_hash(paper)) for paper in _read(data / "more.jsonl")]
    return [before | dict(added[:n]) for n in range(3, len(added), 3)]


def _read(corpus: Path) -> Iterator[Paper]:
    from indexer.corpus.read import CorpusReport, read_corpus  # noqa: PLC0415 - only children need it

    yield from read_corpus(corpus, report=CorpusReport())


def killed_at(
    step: int,
    data: Path,
    operate: Callable[[Path, Acknowledge], None],
    acknowledged: Path,
    counted: Path,
) -> None:
    """Kill this process at a step of an operation, or write the number of steps to ``counted``."""
    taken = 0

    def take() -> None:
        nonlocal taken
        taken += 1
        if taken == step:
            os.kill(os.getpid(), signal.SIGKILL)

    with _watched(take):
        operate(data, acknowledged.touch)
    counted.write_text(str(taken))


@contextmanager
def _watched(take: Callable[[], None]) -> Iterator[None]:
    on = True

    def heard(name: str, _: tuple[object, ...]) -> None:
        if on and name in _STEPS:
            take()

    def executing(*_: object) -> None:
        take()

    sys.addaudithook(heard)  # for the rest of this process, which is short
    event.listen(Engine, "before_cursor_execute", executing)
    event.listen(Engine, "commit", executing)
    try:
        yield
    finally:
        on = False
        event.remove(Engine, "before_cursor_execute", executing)
        event.remove(Engine, "commit", executing)


def in_child(work: Callable[[], object], *, after_s: float | None = None) -> int:
    """Run ``work`` in a forked process, killed after ``after_s``; return its ``os.waitpid`` status."""
    child = os.fork()
    if child:
        if after_s is not None:
            time.sleep(after_s)
            os.kill(child, signal.SIGKILL)  # if it has ended already, it is a zombie until waitpid
        return os.waitpid(child, 0)[1]
    signal.alarm(_TIMEOUT_S)  # a child that hangs is a failure, not a wait
    try:
        work()
    except BaseException:  # noqa: BLE001 - whatever it is, the parent is told by the status
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def unkilled(template: Path, scratch: Path, operation: str) -> Outcome:
    """Return the outcome of an operation that is not killed; raises AssertionError if anything is wrong."""
    outcome = trial(template, scratch, operation, NEVER)
    if outcome.wrong:
        raise AssertionError(f"{operation}: {outcome.wrong}")
    return outcome


def spread(n_steps: int, n_trials: int, *, seed: int) -> Sequence[int]:
    """Return ``n_trials`` steps spread over all steps, different ones for another seed."""
    return [1 + (i * n_steps // n_trials + seed) % n_steps for i in range(n_trials)]
