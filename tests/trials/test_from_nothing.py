"""From an empty environment to results in a notebook: the wheel, its packages, 300 real papers."""

import time
from pathlib import Path

import nbformat
import pytest

from tests.support.builds import ROOT
from tests.support.outside_data import outside_data
from tests.support.packages import build, install, run
from tests.support.trials.asked import tell

N_PAPERS = 300
# Executes a notebook in a kernel of the environment that it runs in.
EXECUTE = """
import sys

import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, kernel_name="python3", timeout=300).execute()
nbformat.write(notebook, sys.argv[1])
"""


def executed(programs: Path, notebook: nbformat.NotebookNode, folder: Path) -> str:
    """All that a notebook shows when it is executed by the Python of ``programs``."""
    file, script = folder / "notebook.ipynb", folder / "execute.py"
    nbformat.write(notebook, file)
    script.write_text(EXECUTE, encoding="utf-8")
    run(programs / "python", script, file)
    outputs = [each for cell in nbformat.read(file, as_version=4).cells for each in cell.get("outputs", ())]
    shown = [each.get("text", "") + "".join(each.get("data", {}).values()) for each in outputs]
    return "\n".join(shown)


@pytest.mark.trial
def test_a_search_in_a_notebook_from_nothing(tmp_path: Path) -> None:
    """How long it takes is told; the tutorial runs in the same environment."""
    corpus = outside_data("corpus.jsonl.gz")
    built = build(tmp_path)
    started = time.monotonic()
    programs = install(built, tmp_path / "venv", "local", beside=("ipykernel", "nbclient", "pandas"))
    installed_s = time.monotonic() - started
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell(each)
        for each in (
            f"import akin\npapers = akin.index('{corpus}', '{tmp_path}/data', limit={N_PAPERS})",
            "papers.search(papers.list_papers(limit=1)[0].id, facet='method', limit=5)",
        )
    ]
    shown = executed(programs, notebook, tmp_path)
    took_s = time.monotonic() - started
    tell(f"installed in {installed_s:.0f} s; {N_PAPERS} papers searched {took_s:.0f} s after the start")
    assert 5 == shown.count('<article class="card"')
    tutorial = executed(programs, nbformat.read(ROOT / "docs" / "tutorial.ipynb", as_version=4), tmp_path)
    assert tutorial.count('<article class="card"') == 3 + 3 + 2 + 2
    assert "@article{" in tutorial
