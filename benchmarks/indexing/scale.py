"""What a larger collection costs, by arithmetic from measured runs: python -m benchmarks.indexing.scale

It writes the tables of docs/measured/scale.md from docs/measured/sizes.json (commands and queries at
10,000 to 1,000,000 papers) and docs/measured/performance.json (the encoder).
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
DIM: Final = 384  # minilm
SENTENCES: Final = 8  # of a paper of benchmarks.indexing.sizes
TARGETS: Final = (10**6, 10**8, 10**9)
_GB, _GPU_GB, _RESERVED_GB, _HOURS = 1e9, 80.0, 5.0, 3600.0
# Bytes a sentence: those of ``ivfpq`` and ``ivfsq`` of a file of 150,000 rows, those of ``hnsw`` of one of
# 54,000 (indexer/index/backends/faiss_hnsw.py), the others by construction.
PARTS: Final[Mapping[str, float]] = {
    "vectors, float16": 2 * DIM,
    "vectors, float32": 4 * DIM,
    "`ivfpq`: codes of dim / 4, numbers, padding and lists": 120,
    "`ivfsq`: codes of dim, numbers and lists": 400,
    "`hnsw`: codes of dim, and links": 656,
    "`flat` on a GPU: float32, and a norm": 4 * (DIM + 1),
}


def tables(sizes: Mapping[str, Any], performance: Mapping[str, Any]) -> list[str]:
    """The three tables, in Markdown: memory, building, asking."""
    return [_memory(), _building(sizes, performance), _asking(sizes)]


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
    """Hours of one core: encoding by its figure, the rest of ``akin index`` by the largest run."""
    papers, seconds = _largest(sizes, "index")
    # In one segment all papers are written anew; of several, those that need not be are left.
    whole = {n: run for n, run in sizes.items() if run.get("open", {}).get("segments", 1) == 1}
    compacted, compacting_s = _largest(whole, "merge")
    encoder = next(row for row in performance["rows"] if row["what"].startswith("encode"))
    rows = []
    for name, paper_s in (
        (f"encode, float32 ({encoder['ours']:.0f} ms a paper)", encoder["ours"] / 1000),
        (f"encode, bfloat16 ({encoder['theirs']:.0f} ms a paper)", encoder["theirs"] / 1000),
        (f"all else of `akin index` ({1000 * seconds / papers:.2f} ms a paper)", seconds / papers),
        ("`akin compact`, once", compacting_s / compacted),
    ):
        rows.append([name, *(_size(n / SENTENCES * paper_s / _HOURS) for n in TARGETS)])
    return _table(["hours of one core", *(_power(n) for n in TARGETS)], rows)


def _asking(sizes: Mapping[str, Any]) -> str:
    """By the line through the two largest runs: what does not grow, and what each sentence adds."""
    (few, few_s), (many, many_s) = (
        (SENTENCES * int(n), sizes[n]["queries"]["processor_s"]) for n in sorted(sizes, key=int)[-2:]
    )
    slope = (many_s - few_s) / (many - few)
    fixed = few_s - slope * few
    (_, few_mib), (_, many_mib) = (
        (n, sizes[n]["queries"]["private_mib"]) for n in sorted(sizes, key=int)[-2:]
    )
    sentence_bytes = 2**20 * (many_mib - few_mib) / (many - few)
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
                f"own memory of the service, {sentence_bytes:.0f} bytes a sentence",
                *(_size(n * sentence_bytes / _GB) + " GB" for n in TARGETS),
            ],
        ],
    )


def _cores(shared_s: float, left_s: float) -> int:
    return max(1, math.ceil(shared_s / left_s))


def _largest(sizes: Mapping[str, Any], what: str) -> tuple[int, float]:
    """Papers of the largest run, and seconds of the processor."""
    papers = max(sizes, key=int)
    return int(papers), sizes[papers][what]["processor_s"]


def _power(n: int) -> str:
    return f"10^{round(math.log10(n))} sentences"


def _size(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(documents: Path) -> str:
    """docs/measured/scale.md, its tables made anew."""
    sizes, performance = (
        json.loads((documents / name).read_text(encoding="utf-8"))
        for name in ("measured/sizes.json", "measured/performance.json")
    )
    made = iter(tables(sizes, performance))
    return re.sub(
        r"(?m)(?:^\|.*\n)+",
        lambda _: next(made) + "\n",
        (documents / "measured" / "scale.md").read_text("utf-8"),
    )


def main() -> None:
    """Write them."""
    (ROOT / "docs" / "measured" / "scale.md").write_text(page(ROOT / "docs"), encoding="utf-8")


if __name__ == "__main__":
    main()
