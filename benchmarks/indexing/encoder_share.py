"""The encoder's share of ``akin index``: ``python -m benchmarks.indexing.encoder_share FIGURES.json ...``

The other arguments are those of ``akin index``, which runs in this process. Writes the times, the share, and
the peak memory of the process to the file; also of a part, if it is interrupted. Goal P7 requires 0.9 on real
papers, and at most 0.05 for building the indexes.
"""

import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from akin.__main__ import main
from indexer.index.vector_index import VectorIndex
from indexer.snapshot import segment_writer
from models.encoders.contextual import ContextualEncoder
from models.types import EncodedPaper, Paper


def measure(arguments: Sequence[str]) -> dict[str, Any]:
    """Run ``akin index``; return its status, seconds in all and of its parts, papers encoded, peak MiB."""
    spent, building, n_papers, status = 0.0, 0.0, 0, 0
    encode, build_index = ContextualEncoder.encode, segment_writer.build_index

    def timed(self: ContextualEncoder, papers: Sequence[Paper], **options: Any) -> list[EncodedPaper]:
        nonlocal spent, n_papers
        began = time.perf_counter()
        encoded = encode(self, papers, **options)
        spent += time.perf_counter() - began
        n_papers += len(papers)
        return encoded

    def timed_index(*given: Any, **options: Any) -> VectorIndex:
        nonlocal building
        began = time.perf_counter()
        index = build_index(*given, **options)
        building += time.perf_counter() - began
        return index

    ContextualEncoder.encode = timed  # type: ignore[method-assign]
    segment_writer.build_index = timed_index  # type: ignore[assignment]
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
        "index_seconds": round(building, 1),
        "processor_seconds": round(time.process_time() - processor, 1),
        "papers_a_second": round(n_papers / wall, 2),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


if __name__ == "__main__":
    figures = measure(sys.argv[2:])
    Path(sys.argv[1]).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    sys.exit(figures["status"])
