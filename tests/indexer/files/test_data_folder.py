"""The names of a collection's files and folders are stated once, and its locks are taken in one place."""

import ast
from pathlib import Path

from tests.support.builds import ROOT

NAMES = {
    *("CURRENT", "LOCK", "SECRET", "segments", "snapshots", "building", "needed", "lookups"),
    *("catalog.sqlite3", "manifest.json", "verified.json", "arguments.json", "prepared.json"),
    "published.json",
}
PATTERNS = ("building/", "segments/", "snapshots/", "part-*/")


def spelled_in(file: Path) -> list[str]:
    """Return the names of files and folders of a collection that are spelled in a Python file."""
    nodes = [*ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    paths = {id(node.right) for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)}
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
        if (node.value in NAMES and id(node) in paths) or node.value.startswith(PATTERNS)
    ]


def test_paths_of_a_collection_are_those_of_data_folder() -> None:
    """No other file of the indexer spells the name of a file or folder of a collection."""
    files = [file for file in (ROOT / "indexer").rglob("*.py") if file.name != "data_folder.py"]
    assert {} == {file.name: spelled for file in files if (spelled := spelled_in(file))}


def test_locks_of_a_collection_are_those_of_data_folder() -> None:
    """No file of the indexer outside ``files/`` takes a lock by itself."""
    files = [file for file in (ROOT / "indexer").rglob("*.py") if file.parent.name != "files"]
    assert [] == [file.name for file in files if "flock(" in file.read_text(encoding="utf-8")]
