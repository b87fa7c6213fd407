"""The memory of each further process of a service: python -m benchmarks.serving.shared DATA [--processes 2]

Processes on one host map the same files, and the kernel holds each page of them once. Each process is started
and searched, then the proportional set size of all is read: a page mapped by n of them counts 1/n for each.
Prints one JSON object, in MiB.
"""

import argparse
import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import httpx

from benchmarks.serving.start import served

_FIELDS = ("Rss", "Pss", "Pss_Anon", "Pss_File", "Private_Dirty")


def memory_mib(process: subprocess.Popen[bytes]) -> dict[str, float]:
    """Return the memory of a process by the kernel's count, in MiB."""
    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    sizes = dict(line.split(":") for line in lines if ":" in line)
    return {name: round(int(sizes[name].split()[0]) / 1024, 1) for name in _FIELDS}


def ask(port: int, ids: Sequence[str]) -> None:
    """Search by each of the papers; raises httpx.HTTPStatusError if a search is refused."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        for paper_id in ids:
            client.post("/v1/search", json={"query": {"paper_id": paper_id}}).raise_for_status()


def drawn(port: int, n: int, seed: int) -> list[str]:
    """Draw the ids of ``n`` papers from the first 10 ``n`` papers of the collection."""
    generator, ids = random.Random(seed), dict[str, None]()  # noqa: S311 - nothing secret
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        cursor: str | None = None
        while len(ids) < n * 10:
            page = client.get("/v1/papers", params={"limit": 100, **({"cursor": cursor} if cursor else {})})
            answer = page.raise_for_status().json()
            ids |= dict.fromkeys(paper["id"] for paper in answer["papers"])
            cursor = answer.get("next_cursor")
            if cursor is None:
                break
    return generator.sample([*ids], min(n, len(ids)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--port", type=int, default=8790)
    given = parser.parse_args()
    processes: list[subprocess.Popen[bytes]] = []
    figures = {}
    try:
        for number in range(given.processes):
            port = given.port + number
            processes.append(served(given.data, port)[0])
            ask(port, drawn(port, given.queries, seed=0))
            each = [memory_mib(process) for process in processes]
            figures[f"{number + 1}"] = {"Pss of all": round(sum(own["Pss"] for own in each), 1), "each": each}
    finally:
        for process in processes:
            process.kill()
            process.wait()
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
