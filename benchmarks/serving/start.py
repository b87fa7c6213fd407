"""Start and rollback: the time from SIGKILL until /readyz is ready again, and of `akin snapshot rollback`.

python -m benchmarks.serving.start DATA [--rounds 5] [--rollback]

With --rollback a paper is added and rolled back in turn; DATA is left unchanged except for unused numbers.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

_START_TIMEOUT_S = 600.0


def akin(*arguments: str) -> list[str]:
    """Return a command line of Akin in this environment."""
    return [sys.executable, "-m", "akin", *arguments]


def served(data: Path, port: int) -> tuple[subprocess.Popen[bytes], float]:
    """Start a service and return it with the seconds until ready; raises SystemExit if it fails."""
    started = time.perf_counter()
    process = subprocess.Popen(  # noqa: S603 - our own command
        akin("serve", "--data", str(data), "--port", str(port), "--device", "cpu"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while time.perf_counter() - started < _START_TIMEOUT_S and process.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).json()["status"] == "ready":
                return process, time.perf_counter() - started
        except httpx.TransportError:
            time.sleep(0.02)
    process.kill()
    raise SystemExit("The service did not become ready.")


def rolled_back_s(data: Path, number: int) -> float:
    """Add a paper and roll it back; return the seconds of the rollback as a shell command."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "one.jsonl"
        paper = {
            "id": f"start-{number}",
            "title": "A paper",
            "abstract": f"The number is {number}. It is new.",
        }
        corpus.write_text(json.dumps(paper) + "\n", encoding="utf-8")
        subprocess.run(akin("index", str(corpus), "--data", str(data)), check=True, capture_output=True)  # noqa: S603 - ours
    started = time.perf_counter()
    subprocess.run(akin("snapshot", "rollback", "--data", str(data)), check=True, capture_output=True)  # noqa: S603 - ours
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rollback", action="store_true")
    parser.add_argument("--port", type=int, default=8790)
    given = parser.parse_args()
    process, first_s = served(given.data, given.port)
    print(f"first start {first_s:.1f} s")
    again = []
    for _ in range(given.rounds):
        process.kill()
        process.wait()
        process, took_s = served(given.data, given.port)
        again.append(took_s)
    process.kill()
    process.wait()
    print(
        f"SIGKILL to ready: median {statistics.median(again):.1f} s; {', '.join(f'{s:.1f}' for s in again)}"
    )
    if given.rollback:
        back = [rolled_back_s(given.data, number) for number in range(given.rounds)]
        print(f"rollback: median {statistics.median(back):.2f} s; {', '.join(f'{s:.2f}' for s in back)}")


if __name__ == "__main__":
    main()
