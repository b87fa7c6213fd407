"""GPU speed, and agreement with the processor's results: python -m benchmarks.gpu [--json FILE]

Measures encoding, indexes, and transport over a whole made-up collection, each against the processor: the
best 20 must be the same and scores agree to 1e-5 (1e-3 in half precision). Without a GPU the same runs on the
processor, at small sizes. It needs this folder and the packages of `akin[gpu]`; a section without its
packages is left out, with the reason. Each line is printed once measured, and nothing is started after
``--minutes``. Exit status 1: a result is wrong or a section failed.
"""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.on_device.rows import OF_CPU, OF_GPU, Row, Sizes
from benchmarks.suite.rows import machine

SECTIONS = ("transport", "indexes", "encoding")


def main(of_cpu: Sizes = OF_CPU) -> int:
    """Measure, print and write the lines; ``of_cpu`` are the sizes without a GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--minutes", type=float, default=8.0, help="nothing is begun after so long")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--json", type=Path, help="write the lines to this file as well")
    given = parser.parse_args()
    console = Console(width=170)
    name, hardware = _device(given.device)
    sizes = of_cpu if name == "cpu" else OF_GPU
    console.print(hardware)
    end = time.monotonic() + 60 * given.minutes
    found: dict[str, list[Row]] = {section: [] for section in given.only}
    failed: dict[str, str] = {}
    for section in given.only:
        try:
            for row in measured(section, name, sizes, end):
                found[section].append(row)
                console.print(_words(row), highlight=False)
        except Exception as error:  # noqa: BLE001 - the other sections are measured
            failed[section] = f"{type(error).__name__}: {error}"
            console.print(f"{section} is left out: {failed[section]}", markup=False)
            traceback.print_exc(file=sys.stderr)
    console.print(_table(hardware["device"], found))
    if given.json:
        rows = {
            section: [{**asdict(row), "is_right": row.is_right} for row in own]
            for section, own in found.items()
        }
        content = {**hardware, "machine": machine(), "rows": rows, "failed": failed}
        given.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    wrong = [row.what for own in found.values() for row in own if row.is_right is False]
    console.print(f"wrong: {wrong or 'nothing'}; left out: {list(failed) or 'nothing'}", markup=False)
    return 1 if wrong or failed else 0


def _device(requested: str) -> tuple[str, dict[str, Any]]:
    """Return the device name that all sections use, and details about it."""
    hardware: dict[str, Any] = {"device": "the processor", "faiss_gpus": None}
    with suppress(ImportError):  # only the section of indexes needs it
        faiss = import_module("faiss")
        hardware |= {"faiss": faiss.__version__, "faiss_gpus": faiss.get_num_gpus()}
    try:
        torch = import_module("torch")
    except ImportError as error:
        return "cpu", {**hardware, "missing": str(error)}
    hardware["torch"] = torch.__version__
    if requested == "cpu" or (requested == "auto" and not torch.cuda.is_available()):
        return "cpu", hardware
    name = "cuda:0" if requested in ("auto", "cuda") else requested
    free, of = torch.cuda.mem_get_info(name)
    hardware |= {
        "device": torch.cuda.get_device_name(name),
        "free_gib": round(free / 2**30, 1),
        "gib": round(of / 2**30, 1),
    }
    return name, hardware


def measured(section: str, device: str, sizes: Sizes, end: float) -> Iterator[Row]:
    """Yield the lines of a section until ``end``; raises TimeoutError if the time runs out."""
    rows: Callable[[str, Sizes], Iterator[Row]] = import_module(f"benchmarks.on_device.{section}").rows
    of_section = rows(device, sizes)
    while time.monotonic() < end:
        row = next(of_section, None)
        if row is None:
            return
        yield row
    raise TimeoutError("no time was left for all of it; give it more --minutes, or take it --only")


def _words(row: Row) -> str:
    beside = "" if row.on_cpu is None else f", processor {row.on_cpu:,.4g}"
    compared = "" if row.is_right is None else (", right" if row.is_right else ", WRONG")
    return f"{row.what}: {row.value:,.4g} {row.unit}{beside}{compared}"


def _table(device: str, found: dict[str, list[Row]]) -> Table:
    """Return a table of all lines."""
    table = Table(title=f"On {device}")
    for column in ("what", "unit", "device", "processor", "error", "top 20", "right", "note"):
        table.add_column(column, justify="left" if column in ("what", "unit", "note") else "right")
    for own in found.values():
        for row in own:
            right = "" if row.is_right is None else ("yes" if row.is_right else "NO")
            figures = (row.value, row.on_cpu, row.error, row.top)
            table.add_row(
                row.what,
                row.unit,
                *("" if figure is None else f"{figure:,.4g}" for figure in figures),
                right,
                row.note,
            )
        table.add_section()
    return table


if __name__ == "__main__":
    sys.exit(main())
