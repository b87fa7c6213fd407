"""Heavy requests of clients that disconnect, and when the service stops working on them, by its log."""

import json
import os
import socket
import subprocess
import sys
import time
import uuid
from datetime import datetime
from pathlib import Path

from tests.support.builds import ROOT
from tests.support.servers.processes import AKIN_WITHOUT_WEIGHTS

SENTENCE = (
    "We propose method number {i} that learns representations of river networks to forecast floods {i}. "
)
# More text than an encoder reads.
LONG = "".join(SENTENCE.format(i=i) for i in range(60))
HEAVY = {
    "exact_ot with contrast, limit 100": (
        "/v1/search",
        {
            "query": {"title": "Floods", "abstract": LONG},
            "scorer": "exact_ot",
            "sentences": list(range(12)),
            "unlike": {"sentences": list(range(12, 16)), "weight": 0.5},
            "limit": 100,
        },
    ),
    "ot, limit 100": (
        "/v1/search",
        {"query": {"title": "Floods", "abstract": LONG}, "limit": 100},
    ),
    "50 pasted seeds, limit 100": (
        "/v1/recommendations",
        {"seeds": [{"title": f"Floods {n}", "abstract": LONG[n:]} for n in range(50)], "limit": 100},
    ),
}


class Service:
    """A running `akin serve` without a cache, with its log."""

    def __init__(self, data: Path) -> None:
        serve = ("serve", "--data", str(data), "--port", "0", "--device", "cpu")
        self.process = subprocess.Popen(
            [sys.executable, *AKIN_WITHOUT_WEIGHTS, *serve],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONUNBUFFERED": "1",
                "AKIN_RATE": "0",
                "AKIN_CACHE_MIB": "0",
                "AKIN_DEADLINE_MS": "600000",
            },
        )
        assert self.process.stdout is not None
        serving = next(line for line in self.process.stdout if line.startswith("Serving"))
        self.port = int(serving.rpartition("http://")[2].split()[0].rpartition(":")[2])

    def ended(self, request_id: str) -> tuple[float, int]:
        """Return when a request ended, in Unix seconds, and its status, from the log."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            entry = json.loads(line)
            if entry.get("event") == "request" and entry["request_id"] == request_id:
                return datetime.fromisoformat(entry["timestamp"]).timestamp(), entry["status"]
        raise SystemExit("The service ended.")

    def ask(self, path: str, body: object, *, hang_up_after_s: float | None) -> tuple[float, int]:
        """Send a request; return the seconds from hanging up (or from sending) to its end, and its status."""
        content, request_id = json.dumps(body).encode(), uuid.uuid4().hex
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"X-Request-ID: {request_id}\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(head.encode() + content)
            started = time.time()
            if hang_up_after_s is None:
                connection.recv(1)
            else:
                time.sleep(hang_up_after_s)
                started = time.time()
        ended, status = self.ended(request_id)
        return ended - started, status

    def end(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.communicate()
