"""Tests that the Python of README, of the page on the library and of the tutorial runs in order."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.support.builds import DEMO_CORPUS, ROOT
from tests.support.documents import snippets
from tests.support.packages import executed

INDEXED = "akin.index(PAPERS, FOLDER)"  # in the tutorial
INDEXED_BY_HASHING = 'akin.index(PAPERS, FOLDER, encoder="hashing")'
DRAFT = "Rivers flood towns. We fit a graph network. It forecasts floods."


def test_the_documents_snippets_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The snippets of README and the library page run in order, with the fast hashing encoder."""
    shutil.copy(DEMO_CORPUS, tmp_path / "papers.jsonl")
    library = f"@article{{a, title = {{A draft}}, abstract = {{{DRAFT}}}}}"
    (tmp_path / "library.bib").write_text(library, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in snippets():
        ours = re.sub(r"(akin\.index\([^()]+)\)", r'\1, encoder="hashing")', code)
        ours = ours.replace("akin/demo/papers.jsonl", "papers.jsonl")
        exec(compile(ours, "snippet", "exec"), names)  # noqa: S102 - ours
    printed = capsys.readouterr().out
    assert "99 of 99" in printed
    assert "No paper of this collection" in printed
    assert 8 == len(snippets())


def test_the_tutorial_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The tutorial's cells run in order with the hashing encoder, and the notebook stores no outputs."""
    cells = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))["cells"]
    codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert [[]] * len(codes) == [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for code in codes:
        ours = code.replace(INDEXED, INDEXED_BY_HASHING)
        exec(compile(ours, "cell", "exec"), names)  # noqa: S102 - ours
    shutil.rmtree(names["FOLDER"].parent)
    printed = capsys.readouterr().out
    assert f"akin serve --data {names['FOLDER']}\n" in printed
    assert 3 == printed.count("% of the match, distance ")
    assert "@article{" in printed
    left, right = re.findall(r"^(-\d\.\d{4}) = (-\d\.\d{4})$", printed, re.M)[0]
    assert left == right


@pytest.mark.system
def test_the_tutorial_runs_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel executes the whole notebook, with the hashing encoder, and shows cards and tables."""
    notebook = nbformat.read(ROOT / "docs" / "tutorial.ipynb", as_version=4)
    nbformat.validate(notebook)
    (first,) = [cell for cell in notebook.cells if INDEXED in cell.source]
    first.source = first.source.replace(INDEXED, INDEXED_BY_HASHING)
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where its first cell makes a folder
    shown = executed(Path(sys.executable).parent, notebook, tmp_path)
    assert shown.count('<article class="card"') == 3 + 3 + 2 + 2
    assert '<table border="1" class="dataframe">' in shown
    assert "@article{" in shown
