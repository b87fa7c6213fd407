"""Trials that kill commands at a step and run them again: the result is as if never killed, and tidy."""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from indexer.catalog.catalog import Catalog
from indexer.collection.maintenance.backup import back_up
from indexer.content_hash import content_hash
from indexer.files.data_folder import CATALOG_FILE, DataFolder, numbered
from indexer.snapshot.folder import read_manifest
from indexer.snapshot.opening import open_snapshot
from tests.support.builds import papers_in
from tests.support.trials.crashes import (
    NEVER,
    Acknowledge,
    State,
    add_corpus,
    add_in_portions,
    delete,
    in_child,
    killed_at,
    merge,
    merge_pairs,
    purge,
    reindex,
    replace_all,
    spread,
    state_of,
)


def copy(data: Path, acknowledge: Acknowledge) -> None:
    """Run ``akin backup``, unless it is done."""
    copy = data.with_name("copy")
    if not copy.exists():
        back_up(data, copy, catalog=data / CATALOG_FILE)
    acknowledge()


# Without rollback, which goes further back if run again.
COMMANDS: dict[str, Callable[[Path, Acknowledge], None]] = {
    "first index": add_corpus,
    "index": add_corpus,
    "index --replace": replace_all,
    "first index in portions": add_in_portions,
    "index in portions": add_in_portions,
    "delete": delete,
    "compact": merge,
    "merge": merge_pairs,
    "reindex": reindex,
    "purge": purge,
    "backup": copy,
}


def reruns(template: Path, scratch: Path, command: str, *, n_trials: int) -> tuple[int, list[str]]:
    """Kill a command at up to ``n_trials`` steps, each on a fresh copy, and run it again.

    Return the number of trials and what is wrong.
    """
    n_steps, _ = _given(template, scratch, command, NEVER)
    expected = _looked_at(scratch, command)["served"]
    found, steps = [], spread(n_steps, min(n_trials, n_steps), seed=3)
    for step in steps:
        _, killed = _given(template, scratch, command, step)
        again = in_child(lambda: COMMANDS[command](scratch / "data", lambda: None))
        wrong = "given again it failed" if again else _wrong(_looked_at(scratch, command), expected)
        if wrong or not killed:
            found.append(f"{command}, step {step} of {n_steps}: {wrong or 'not killed'}")
    return len(steps), found


def _given(template: Path, scratch: Path, command: str, step: int) -> tuple[int, bool]:
    """Run a command on a copy of ``template``, killed at ``step``; return its steps and whether killed."""
    data, counted = scratch / "data", scratch / "steps"
    shutil.rmtree(scratch, ignore_errors=True)
    if command.startswith("first"):
        data.mkdir(parents=True)
        shutil.copy(template / "more.jsonl", data)
    else:
        shutil.copytree(template, data)
    operation = COMMANDS[command]
    status = in_child(lambda: killed_at(step, data, operation, scratch / "acknowledged", counted))
    return int(counted.read_text()) if counted.exists() else 0, os.WIFSIGNALED(status)


def _looked_at(scratch: Path, command: str) -> dict[str, Any]:
    """Return the state of the folder afterwards, as another process finds it."""
    report, data = scratch / "report", scratch / "data"
    served = scratch / "copy" if command == "backup" else data
    if in_child(lambda: report.write_bytes(orjson.dumps(_look(data, served)))):
        raise AssertionError(f"{command}: the process that looked failed")
    found: dict[str, Any] = orjson.loads(report.read_bytes())
    return found


def _look(data: Path, served: Path) -> dict[str, State | Sequence[str]]:
    with Catalog.open(served / CATALOG_FILE) as catalog:
        in_catalog = {paper.id: content_hash(paper) for paper in papers_in(catalog).values()}
    named = {
        entry.name for name in DataFolder(data).generations() for entry in read_manifest(data, name).segments
    }
    kept = {"verified.json"}  # the list of verified files, which stays
    left = [
        path for path in (data / "building").rglob("*") if path.suffix != ".lock" and path.name not in kept
    ]
    left += [path for path in data.parent.rglob("*") if path.suffix in {".unfinished", ".new"}]
    # Segments already marked for removal are removed by the next publication, so they do not count.
    left += [data / "segments" / name for name in numbered(data / "segments") if name not in named]
    return {
        "served": state_of(open_snapshot(served)),
        "catalog": in_catalog,
        "left": [str(path.relative_to(data.parent)) for path in left],
    }


def _wrong(found: dict[str, Any], expected: State) -> str:
    if found["served"] != found["catalog"]:
        return "what is served differs from the catalog"
    if found["served"] != expected:
        return "it did not end as if nobody had killed it"
    return f"left over: {', '.join(found['left'])}" if found["left"] else ""
