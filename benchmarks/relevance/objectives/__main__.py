"""Every training objective on the same data for the same few steps, compared with the initial encoder.

python -m benchmarks.relevance.objectives COCITATION CSFCUBE SCIFACT --work FOLDER [--json FILE]

COCITATION holds ``papers``, ``cocitation_contexts``, ``single_citation_contexts`` and ``citation_pairs``
(.jsonl.gz; the layouts of docs/how-to/training.md). Each row runs in a separate process, on one thread, so
that its peak memory is measured alone; with ``--at-once`` several rows are measured at the same time, but
only one is trained. A row already in ``--work`` is not run again, so an interrupted command continues where
it stopped: ``--only-train`` trains on a machine with a GPU what another one measures. With ``--json``
(docs/measured/objectives.json) the figures are written, and a page next to them (.md). After a change of the
sets (sets.py) it needs a new ``--work``.
"""

import argparse
import fcntl
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from akin.cli.training.config import RunConfig
from akin.cli.training.figures import stored_cost
from akin.cli.training.run import FIGURES, Run
from benchmarks.relevance.objectives.page import BEGUN_WITH, Figure, write_page
from benchmarks.relevance.objectives.rows import TAU, Budget, Recipe, recipes
from benchmarks.relevance.objectives.sets import ENCODER, MEASURED, make_sets, measured_on
from benchmarks.suite.rows import machine
from evaluation.collection import Collection
from evaluation.measures import per_query
from evaluation.statistics.bootstrap import difference
from evaluation.systems.systems import Systems
from evaluation.systems.vectors import VectorSource
from models.encoder import load_encoder
from models.training.cost import peak_memory_mib
from models.types import Precision

MAX_TOKENS = 160


def run_row(name: str, csfcube: Path, scifact: Path, work: Path, budget: Budget) -> dict[str, Any]:
    """Train one row and measure it; return the figures of every query and the cost of training."""
    torch.set_num_threads(1)
    row: dict[str, Any] = {"name": name}
    encoder = ENCODER
    if name != BEGUN_WITH:
        run = work / "runs" / file_name(name)
        encoder = str(run / "encoder")
        row |= train_row(name, work, budget)
        if not Path(encoder).exists():
            _run(recipes()[name], work, run, budget).finish()
    row["values"] = _values(encoder, measured_on(csfcube, scifact, work), budget.device)
    if name != BEGUN_WITH:
        shutil.rmtree(encoder)
    return row


def train_row(name: str, work: Path, budget: Budget) -> dict[str, Any]:
    """Train one row, unless it is trained already; return time, memory and losses."""
    to = work / "runs" / file_name(name)
    cost_file = to / "cost.json"
    if cost_file.exists():
        return dict(json.loads(cost_file.read_text(encoding="utf-8")))
    recipe = recipes()[name]
    with (work / "training.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if to.exists():
            shutil.rmtree(to)
        run = _run(recipe, work, to, budget)
        # A busy machine does not change a processor's time; a GPU is alone here.
        clock = time.process_time if budget.device == "cpu" else time.perf_counter
        began, before = clock(), _peak_mib(budget.device)
        history = run.train(on_progress=lambda *_: None)
        took, after = clock() - began, _peak_mib(budget.device)
    tenth = max(1, len(history.losses) // 10)
    row = {
        "objective": dict(recipe.objective),
        "mixing": recipe.mixing,
        "gpu": None if budget.device == "cpu" else torch.cuda.get_device_name(),
        "papers_a_second": stored_cost(to / FIGURES).n_papers / took,
        "peak_mib": after,
        "peak_before_mib": before,
        "first_loss": float(np.mean(history.losses[:tenth])),
        "last_loss": float(np.mean(history.losses[-tenth:])),
    }
    _write(cost_file, row)
    return row


def _run(recipe: Recipe, work: Path, to: Path, budget: Budget) -> Run:
    """Return the training run of ``recipe`` in the folder ``to``."""
    sets = [{"path": work / recipe.learnt_from, "objective": recipe.objective, "weight": 3}]
    if recipe.mixing:
        sets = [{"path": work / "contexts", "objective": recipe.objective, "weight": 1}, *sets]
    config = RunConfig.model_validate(
        {
            "encoder": ENCODER,
            "max_tokens": MAX_TOKENS,
            "precision": recipe.precision,
            "mixing": recipe.mixing or "alternating",
            "low_rank": {},
            "sets": sets,
            "steps": budget.steps,
        }
    )
    return Run(config, to, device=budget.device)


def _peak_mib(device: str) -> float:
    """Return the peak memory of this process, in MiB; on a GPU, that of its tensors there."""
    peak = peak_memory_mib(torch.device(device))
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    return peak


def _values(encoder: str, sets: Mapping[str, Collection], device: str) -> dict[str, Any]:
    """Return the value of every query by set, system and measure, in percent."""
    # Rounding moves a vector by 1 - cos = 2e-5, for all rows alike.
    loaded = load_encoder(encoder, device=device, precision=Precision.BFLOAT16)
    source = VectorSource(loaded, on_progress=lambda *_: None)
    found: dict[str, Any] = {}
    for name, collection in sets.items():
        systems = Systems(collection, lambda _: source)
        names, measures = MEASURED[name]
        for suffix in names:
            values = per_query(replace(collection, measures=measures), systems.rank(f"{ENCODER}:{suffix}"))
            found.setdefault(name, {})[suffix] = {measure: dict(values[measure]) for measure in measures}
    return found


def file_name(name: str) -> str:
    """Return a row's name as a file name."""
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def figures_of(rows: Mapping[str, Any], sets: Mapping[str, Collection]) -> Iterator[Figure]:
    """Yield each row's figures and their difference from the initial encoder's, paired by query."""
    begun = rows[BEGUN_WITH]["values"]
    for name, row in rows.items():
        for of_set, systems in row["values"].items():
            clusters = {query.id: query.cluster for query in sets[of_set].queries}
            for system, measures in systems.items():
                for measure, values in measures.items():
                    paired = difference(values, begun[of_set][system][measure], clusters)
                    mean = float(np.mean(list(values.values())))
                    yield Figure(name, of_set, system, measure, mean, paired.value, paired.low, paired.high)


def report(csfcube: Path, scifact: Path, work: Path, budget: Budget) -> dict[str, Any]:
    """Collect everything that the page shows, from the rows in ``work``."""
    rows = {}
    for name in (BEGUN_WITH, *recipes()):
        file = work / f"{file_name(name)}.json"
        if file.exists():
            rows[name] = json.loads(file.read_text(encoding="utf-8"))
    sets = measured_on(csfcube, scifact, work)
    sizes = {
        name: {
            "queries": len(own.queries),
            "papers": len({p for q in own.queries for p in q.pool} or own.papers),
        }
        for name, own in sets.items()
    }
    return {
        "machine": machine(),
        "gpu": next((row["gpu"] for row in rows.values() if row.get("gpu")), None),
        "encoder": ENCODER,
        "examples": budget.n_examples,
        "steps": {**budget.steps, "max_tokens": MAX_TOKENS, "tau": TAU},
        "sets": sizes,
        "rows": [{key: row[key] for key in row if key != "values"} for row in rows.values()],
        "figures": [asdict(figure) for figure in figures_of(rows, sets)],
    }


def main() -> None:
    """Run the missing rows, and write the requested files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs=3, help="COCITATION CSFCUBE SCIFACT")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--examples", type=int, default=400, help="co-cited pairs, and citing sentences")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=8, help="examples")
    parser.add_argument("--rate", type=float, default=4e-4)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    parser.add_argument("--at-once", type=int, default=1, help="rows")
    parser.add_argument("--only-train", action="store_true", help="measure later, maybe on another machine")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    given = parser.parse_args()
    budget = Budget(given.examples, given.steps, given.batch, given.rate, given.device)
    data, csfcube, scifact = given.data
    if given.row is not None:
        row = run_row(given.row, csfcube, scifact, given.work, budget)
        _write(given.work / f"{file_name(given.row)}.json", row)
        return
    make_sets(data, csfcube, scifact, given.work, budget)
    if given.only_train:
        for name in recipes():
            print(time.strftime("%H:%M:%S"), name, train_row(name, given.work, budget), flush=True)
        return

    def run(name: str) -> None:
        if not (given.work / f"{file_name(name)}.json").exists():
            print(time.strftime("%H:%M:%S"), name, flush=True)
            command = [sys.executable, "-m", "benchmarks.relevance.objectives", *sys.argv[1:]]
            # The program is this interpreter, its arguments a list.
            subprocess.run([*command, "--row", name], check=True)  # noqa: S603

    with ThreadPoolExecutor(given.at_once) as threads:
        for _ in threads.map(run, (BEGUN_WITH, *recipes())):
            if given.json is not None:
                _write(given.json, report(csfcube, scifact, given.work, budget))
                write_page(given.json)


def _write(file: Path, content: Any) -> None:
    """Write a JSON file atomically, so that no partial file is ever visible."""
    aside = file.with_suffix(".part")
    aside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    aside.replace(file)


if __name__ == "__main__":
    main()
