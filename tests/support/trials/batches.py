"""The processes that work on a batch, killed at random moments."""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from akin.client.client import Client

SERVICE_SHARE = 0.25  # of the kills
FINAL = {"done", "cancelled", "failed"}


@dataclass
class Processes:
    """The service and its workers; each can be killed and started again."""

    data: Path
    port: int
    n_killed: Counter[str] = field(default_factory=Counter)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start ``service`` or a worker, by its name."""
        serve = ["serve", "--data", str(self.data), "--port", str(self.port)]
        arguments = serve if name == "service" else ["worker", "--data", str(self.data)]
        self.running[name] = subprocess.Popen(
            [sys.executable, "-m", "akin", *arguments, "--device", "cpu"],
            env={**os.environ, "AKIN_KEYLESS": "write", "AKIN_WORKERS": "true"},
            stdout=subprocess.DEVNULL,
        )

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL and start it again."""
        self.running[name].kill()
        self.running[name].wait()
        self.n_killed[name.partition(" ")[0]] += 1
        self.start(name)

    def end(self) -> None:
        """Kill all processes."""
        for process in self.running.values():
            process.kill()
            process.wait()


def kill_at_random(processes: Processes, client: Client, batch_id: str, *, n_kills: int) -> None:
    """Kill processes at ``n_kills`` random moments of a batch, until it is finished."""
    workers = [name for name in processes.running if name != "service"]
    total = client.get_batch(batch_id).queries
    moments = sorted(random.uniform(0.02, 0.95) * total for _ in range(n_kills))
    while True:
        batch = client.get_batch(batch_id)
        if batch.state in FINAL:
            return
        while moments and batch.done >= moments[0]:
            del moments[0]
            service = not workers or random.random() < SERVICE_SHARE
            processes.kill("service" if service else random.choice(workers))
        time.sleep(0.2)
