"""The encoder's share of ``akin index``: ``python -m benchmarks.indexing.encoder_share ...``

The arguments are those of ``akin index``, which runs in this process. Prints one JSON object: the times, the
share, and the peak memory of the process; also of a part, if it is interrupted. Goal P7 requires 0.9 on real
papers.
"""

import json
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

from akin.__main__ import main
from models.encoders.contextual import ContextualEncoder
from models.types import EncodedPaper, Paper


def measure(arguments: Sequence[str]) -> dict[str, Any]:
    """Run ``akin index``; return its status, seconds in all and in the encoder, papers encoded, peak MiB."""
    spent, n_papers, status = 0.0, 0, 0
    encode = ContextualEncoder.encode

    def timed(self: ContextualEncoder, papers: Sequence[Paper], **options: Any) -> list[EncodedPaper]:
        nonlocal spent, n_papers
        began = time.perf_counter()
        encoded = encode(self, papers, **options)
        spent += time.perf_counter() - began
        n_papers += len(papers)
        return encoded

    ContextualEncoder.encode = timed  # type: ignore[method-assign]
    sys.argv = ["akin", "index", *arguments]
    began, processor = time.perf_counter(), time.process_time()
    try:
        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    wall = time.perf_counter() - began
    return {
        "status": status,
        "papers": n_papers,
        "seconds": round(wall, 1),
        "encoder_seconds": round(spent, 1),
        "encoder_share": round(spent / wall, 4),
        "processor_seconds": round(time.process_time() - processor, 1),
        "papers_a_second": round(n_papers / wall, 2),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


if __name__ == "__main__":
    print(json.dumps(measured := measure(sys.argv[1:]), indent=2))
    sys.exit(measured["status"])
