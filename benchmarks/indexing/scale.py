"""The cost of larger collections, computed from measured runs: python -m benchmarks.indexing.scale

It writes the tables of docs/measured/scale.md and its chart from docs/measured/sizes.json (commands and
queries at 10,000 to 1,000,000 papers), sizes-short.json (10 million sentences of short papers) and
performance.json (the encoder).
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.indexing.sizes_chart import Line, chart

ROOT: Final = Path(__file__).parents[2]
DIM: Final = 384  # minilm
SENTENCES: Final = 8  # per paper of benchmarks.indexing.sizes
TARGETS: Final = (10**6, 10**8, 10**9)
_GB, _GPU_GB, _RESERVED_GB, _HOURS = 1e9, 80.0, 3 * 2**30 / 1e9, 3600.0
_RAY_S: Final = 0.05  # more for a query through Ray (docs/explanation/reliability.md, the cluster)
_MEASURED_DIM: Final = 256  # of the vectors of sizes.json: `hashing`
# Bytes per sentence: ``ivfpq`` and ``ivfsq`` from a file of 150,000 rows, ``hnsw`` from one of 54,000
# (indexer/index/backends/faiss_hnsw.py), the others by construction.
PARTS: Final[Mapping[str, float]] = {
    "vectors, float16": 2 * DIM,
    "vectors, float32": 4 * DIM,
    "`ivfpq`: codes of dim / 4, numbers, padding and lists": 120,
    "`ivfsq`: codes of dim, numbers and lists": 400,
    "`hnsw`: codes of dim, and links": 656,
    "`flat` on a GPU: float32, and a norm": 4 * (DIM + 1),
}
# Bytes of memory per sentence by the sizing rules in each engine's documentation, 2026-11.
ENGINES: Final[Mapping[str, float]] = {
    "Qdrant, float32 in memory: 4 bytes a number, times 1.5": 4 * DIM * 1.5,
    "Qdrant, int8 in memory, float32 on disk: 1 byte a number, times 1.5": DIM * 1.5,
    "Milvus, HNSW: 4 bytes a number, 32 links of 4": 4 * (DIM + 32),
    "Milvus, IVF_SQ8: 1 byte a number, 2 for its list": DIM + 2,
    "Milvus, DiskANN: a quarter of float32": DIM,
    "Vespa, HNSW over bfloat16: 2 bytes a number, times 1.2 / 0.65": 2 * DIM * 1.2 / 0.65,
}
_DRAWN: Final = ("Qdrant, float32 in memory", "Milvus, HNSW", "Vespa, HNSW over bfloat16")
_MACHINE_GB: Final = 128.0


def tables(sizes: Mapping[str, Any], short: Mapping[str, Any], performance: Mapping[str, Any]) -> list[str]:
    """Return the four tables, in Markdown: memory, building, searching, other engines."""
    own = _own_bytes(sizes, short)
    return [_memory(), _building(sizes, performance), _asking(sizes, own), _engines(own)]


def picture(sizes: Mapping[str, Any], short: Mapping[str, Any]) -> str:
    """Draw memory and time of a query by number of sentences, as SVG: lines by the same arithmetic."""
    (fixed_s, slope_s), own = _query_line(sizes), _own_bytes(sizes, short)
    at = [10**power for power in range(6, 10)]
    engines = {name.partition(":")[0]: n_bytes for name, n_bytes in ENGINES.items()}

    def memory(name: str, n_bytes: float) -> Line:
        return Line(name, [(n, n * n_bytes / _GB) for n in at])

    return chart(
        [
            (
                "GB of memory",
                [
                    memory("the service's own, with ivfpq", _own_a_sentence(own)),
                    memory("vectors in float16, mapped", 2 * DIM),
                    *(memory(name, engines[name]) for name in _DRAWN),
                ],
            ),
            (
                "processor seconds of a query",
                [
                    Line("all on one core", [(n, fixed_s + slope_s * n) for n in at]),
                    Line("each of ten shards", [(n, fixed_s + slope_s * n / 10) for n in at]),
                ],
            ),
        ],
        title="What a collection takes against its sentences, by arithmetic",
        of="sentences",
    )


def _memory() -> str:
    rows = [
        [name, f"{n_bytes:,.0f}", f"{SENTENCES * n_bytes:,.0f}", *(_size(n * n_bytes / _GB) for n in TARGETS)]
        for name, n_bytes in PARTS.items()
    ]
    for name in list(PARTS)[3:6:2]:
        gpus = (math.ceil(n * PARTS[name] / _GB / (_GPU_GB - _RESERVED_GB)) for n in TARGETS)
        rows.append(
            [f"GPUs of 80 GB for {name.partition(':')[0].removesuffix(' on a GPU')}", "", "", *map(str, gpus)]
        )
    return _table(["", "bytes a sentence", "bytes a paper", *(_power(n) for n in TARGETS)], rows)


def _building(sizes: Mapping[str, Any], performance: Mapping[str, Any]) -> str:
    """Return hours of one core: encoding by its figure, the rest of ``akin index`` by the largest run."""
    papers, seconds = _largest(sizes, "index")
    # Compacting one segment writes all papers again; with several, some may be left as they are.
    whole = {n: run for n, run in sizes.items() if run.get("open", {}).get("segments", 1) == 1}
    compacted, compacting_s = _largest(whole, "merge")
    # The encoder has several rows, and bfloat16 comes first in some of them.
    (encoder,) = (
        row
        for row in performance["rows"]
        if row["what"].startswith("encode") and row.get("beside") == "the same in bfloat16"
    )
    encoding = {"float32": encoder["ours"], "bfloat16": encoder["theirs"]}
    if encoder["theirs"] > encoder["ours"]:  # a processor without its instructions, where it is not used
        del encoding["bfloat16"]
    rows = []
    for name, paper_s in (
        *(
            (f"encode, {form} ({paper_ms:.0f} ms a paper)", paper_ms / 1000)
            for form, paper_ms in encoding.items()
        ),
        (f"all else of `akin index` ({1000 * seconds / papers:.2f} ms a paper)", seconds / papers),
        ("`akin compact`, once", compacting_s / compacted),
    ):
        rows.append([name, *(_size(n / SENTENCES * paper_s / _HOURS) for n in TARGETS)])
    return _table(["hours of one core", *(_power(n) for n in TARGETS)], rows)


def _query_line(sizes: Mapping[str, Any]) -> tuple[float, float]:
    """Return fixed seconds of a query and seconds a sentence, by the line through the two largest runs."""
    largest = sorted(sizes, key=int)[-2:]
    few, many = ((SENTENCES * int(n), sizes[n]["queries"]["processor_s"]) for n in largest)
    slope = (many[1] - few[1]) / (many[0] - few[0])
    return few[1] - slope * few[0], slope


def _own_bytes(sizes: Mapping[str, Any], short: Mapping[str, Any]) -> tuple[float, float]:
    """Return the service's own bytes a paper and a sentence, the latter with its codes in the index.

    Own memory is a fixed part, one for each paper and one for each sentence: the three that agree with the
    two largest runs and the one of short papers. Codes of more numbers are longer: a byte for four of them.
    """
    runs = [(int(n), SENTENCES * int(n), sizes[n]) for n in sorted(sizes, key=int)[-2:]]
    runs += [(run["open"]["papers"], run["open"]["vectors"], run) for run in short.values()]
    counts = np.array([[1.0, papers, sentences] for papers, sentences, _ in runs])
    taken = np.array([2**20 * run["queries"]["private_mib"] for _, _, run in runs])
    _, of_paper, of_sentence = np.linalg.solve(counts, taken).tolist()
    return of_paper, of_sentence + (DIM - _MEASURED_DIM) / 4


def _asking(sizes: Mapping[str, Any], own: tuple[float, float]) -> str:
    """Return the query table by the line through the two largest runs: a fixed part, and one per sentence."""
    fixed, slope = _query_line(sizes)
    seconds = [fixed + slope * n for n in TARGETS]
    return _table(
        ["", *(_power(n) for n in TARGETS)],
        [
            [
                f"processor of a query: {1e3 * fixed:.0f} ms and {1e9 * slope:.1f} ns a sentence",
                *(f"{s:,.2g} s" for s in seconds),
            ],
            [
                "cores that share it to answer in 0.2 s",
                *(str(_cores(s - fixed, 0.2 - fixed)) for s in seconds),
            ],
            [
                "the same in shards on Ray",
                *(str(_cores(s - fixed, 0.2 - _RAY_S - fixed)) for s in seconds),
            ],
            [
                f"own memory of the service, {own[0]:.0f} bytes a paper and {own[1]:.0f} a sentence",
                *(_size(n * _own_a_sentence(own) / _GB) + " GB" for n in TARGETS),
            ],
        ],
    )


def _own_a_sentence(own: tuple[float, float]) -> float:
    """Return own bytes a sentence with its part of a paper of SENTENCES sentences."""
    return own[0] / SENTENCES + own[1]


def _engines(own: tuple[float, float]) -> str:
    """Return memory in GB, and machines of 128 GB, of Akin and of three engines."""
    least = _own_a_sentence(own)
    akin = {
        "Akin, the service's own memory, with the index (`ivfpq`)": least,
        "the same, and vectors in float16": least + 2 * DIM,
    }
    rows = []
    for name, n_bytes in {**akin, **ENGINES}.items():
        sizes_gb = [n * n_bytes / _GB for n in TARGETS]
        machines = math.ceil(sizes_gb[-1] / _MACHINE_GB)
        rows.append([name, f"{n_bytes:,.0f}", *map(_size, sizes_gb), str(machines)])
    head = ["memory, GB", "bytes a sentence", *(_power(n) for n in TARGETS)]
    return _table([*head, "machines of 128 GB for 10^9"], rows)


def _cores(shared_s: float, left_s: float) -> int:
    return max(1, math.ceil(shared_s / left_s))


def _largest(sizes: Mapping[str, Any], what: str) -> tuple[int, float]:
    """Return the papers of the largest run, and its processor seconds."""
    papers = max(sizes, key=int)
    return int(papers), sizes[papers][what]["processor_s"]


def _power(n: int) -> str:
    return f"10^{round(math.log10(n))} sentences"


def _size(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(measured: Path) -> str:
    """Return scale.md in the folder ``measured`` with its tables replaced."""
    made = iter(tables(*(figures(measured, name) for name in ("sizes", "sizes-short", "performance"))))
    text = (measured / "scale.md").read_text(encoding="utf-8")
    return re.sub(r"(?m)(?:^\|.*\n)+", lambda _: next(made) + "\n", text)


def figures(measured: Path, name: str) -> Any:
    """Return the figures of ``name`` in the folder ``measured``."""
    return json.loads((measured / f"{name}.json").read_text(encoding="utf-8"))


def main() -> None:
    """Write the page and the chart."""
    measured = ROOT / "docs" / "measured"
    (measured / "scale.md").write_text(page(measured), encoding="utf-8")
    drawn = picture(figures(measured, "sizes"), figures(measured, "sizes-short"))
    (measured / "scale.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
