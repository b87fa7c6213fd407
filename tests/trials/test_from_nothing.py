"""Tests of the way from an empty environment to results: wheel, packages, a notebook, a library.

All papers are real ones.

docs/measured/measurements.md keeps the table that this prints.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

import nbformat
import pytest

from indexer.corpus.read import read_corpus
from service.api.exports import to_bibtex
from tests.support.builds import DEMO_CORPUS, ROOT
from tests.support.outside_data import outside_data
from tests.support.packages import build, executed, install, install_by_pip, run
from tests.support.trials.settings import print_figure

N_PAPERS = 300
N_ENTRIES = 200


def write_library(corpus: Path, file: Path) -> list[str]:
    """Write the first papers of a corpus as entries of BibTeX with abstracts, and return their titles."""
    papers = list(islice(read_corpus(corpus), N_ENTRIES))
    file.write_text(to_bibtex(papers), encoding="utf-8")
    return [paper.title for paper in papers]


def table(steps: Sequence[tuple[str, float]]) -> Iterator[str]:
    """Yield a Markdown table of each step's seconds and the seconds since the first, which is the start."""
    yield "| step | s | s since the start |"
    yield "|---|---|---|"
    for (_, before), (step, now) in pairwise(steps):
        yield f"| {step} | {now - before:.0f} | {now - steps[0][1]:.0f} |"


def test_the_table_has_a_line_for_each_step() -> None:
    """The start has no line, and the last column adds up."""
    lines = list(table([("start", 5.0), ("install", 15.0), ("search", 35.5)]))
    assert ["| install | 10 | 10 |", "| search | 20 | 30 |"] == lines[2:]


def test_a_library_has_the_papers_of_its_corpus(tmp_path: Path) -> None:
    """Titles and abstracts that were written as BibTeX are read unchanged."""
    titles = write_library(DEMO_CORPUS, tmp_path / "my.bib")
    read = list(read_corpus(tmp_path / "my.bib"))
    assert titles == [paper.title for paper in read]
    assert [paper.abstract for paper in islice(read_corpus(DEMO_CORPUS), N_ENTRIES)] == [
        paper.abstract for paper in read
    ]


@pytest.mark.trial
@pytest.mark.parametrize("installer", [install_by_pip, install])
def test_a_search_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installer: Callable[..., Path]
) -> None:
    """A new environment searches in a notebook, runs the tutorial, and makes a table from a library.

    The time of each step is printed: once with pip and nothing cached, once with uv and its cache.
    """
    corpus = outside_data("corpus.jsonl.gz")
    library, data = tmp_path / "my.bib", tmp_path / "library"
    title, *_ = write_library(corpus, library)
    built = build(tmp_path)
    steps = [("start", time.monotonic())]
    programs = installer(built, tmp_path / "venv", "local", beside=("ipykernel", "nbclient", "pandas"))
    steps.append(("install the wheel and its packages", time.monotonic()))
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell(each)
        for each in (
            "import akin, sys\nassert akin.__file__.startswith(sys.prefix)",
            f"papers = akin.index('{corpus}', '{tmp_path}/data', limit={N_PAPERS})",
            "papers.search(papers.list_papers(limit=1)[0].id, facet='method', limit=5)",
        )
    ]
    shown = executed(programs, notebook, tmp_path)
    steps.append((f"a notebook indexes {N_PAPERS} papers and searches them", time.monotonic()))
    assert 5 == shown.count('<article class="card"')
    tutorial = executed(programs, nbformat.read(ROOT / "docs" / "tutorial.ipynb", as_version=4), tmp_path)
    steps.append(("the tutorial", time.monotonic()))
    assert tutorial.count('<article class="card"') == 3 + 3 + 2 + 2
    assert "@article{" in tutorial
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))  # compile anew, as after installing
    printed = run(programs / "akin", "index", library, "--data", data, folder=tmp_path)
    steps.append((f"`akin index my.bib`, {N_ENTRIES} entries", time.monotonic()))
    assert f"Indexed {N_ENTRIES} papers" in printed
    options = ("--paper", title, "--facet", "method", "--output", "markdown")
    found = run(programs / "akin", "search", "--data", data, *options)
    steps.append(("`akin search` prints a table of problems, methods and results", time.monotonic()))
    head, _, *rows = [line for line in found.splitlines() if line.startswith("| ")]
    assert ("| Paper | Problem | Method | Result |", 10) == (head, len(rows))
    print_figure("\n".join(table(steps)))
