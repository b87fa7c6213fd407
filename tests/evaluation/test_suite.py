"""Tests of the suite: present collections are measured, others keep their figures, and pages are filled."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from akin.cli.app import app
from akin.cli.evaluation.scores import row_tables
from evaluation.report.tables import TextTable, comparison_table, figure_tables
from evaluation.statistics.bootstrap import Difference
from evaluation.statistics.summary import ALL, Comparison, Figures, Row, SystemComparison
from evaluation.suite.figures import Section, read_sections, write_sections
from evaluation.suite.listing import SUITE, Part
from evaluation.suite.page import filled
from evaluation.suite.running import run_suite
from evaluation.systems.system import parse
from evaluation.tasks.candidates import Candidates
from evaluation.tasks.facets import Facets
from evaluation.tasks.functions import Functions
from evaluation.tasks.known_items import KnownItemTask
from evaluation.tasks.ranking import MultiSetRanking, Ranking, corrected
from evaluation.tasks.task import Task, TaskOptions
from models.errors import InputError, UnknownNameError
from tests.support.commands import flat, run
from tests.support.examples.evaluation.set_examples import EXAMPLES
from tests.support.examples.evaluation.system_examples import ignore

FEW = ("demo", "--limit-queries", "8", "--system", "bm25", "--system", "tfidf")
QUICK = TaskOptions("hashing", None, "cpu", None, ignore)
PARTS = {
    "claims": Part(
        "Claims",
        "claims",
        Ranking(
            "beir",
            ("bm25", "{encoder}:ot", "{encoder}:document"),
            (("bm25", "{encoder}:ot"), ("bm25", "no such system")),
        ),
    ),
    "grid": Part("Grid", "grid", Ranking("demo", ("bm25", "{encoder}:ot:focus"))),
    "several": Part("MultiSetRanking", "several", MultiSetRanking(Ranking("beir", ("bm25",)))),
    "gone": Part("Gone", "gone", Ranking("relish", ("bm25",))),
    "empty": Part("Empty", "empty", Ranking("relish", ("bm25",))),
    "none": Part("None", "none", MultiSetRanking(Ranking("beir", ("bm25",)))),
}


def row(system: str, facet: str, measure: str, value: float, low: float = 1.0) -> Row:
    """Return a figure with an interval of four points."""
    return Row("made", system, facet, ALL, measure, value, low, low + 4, 9)


def compared(a: str, b: str, p: float, low: float = 0.5) -> SystemComparison:
    """Return a comparison with a difference of one point."""
    return SystemComparison(a, b, Comparison("MAP", ALL, Difference(1.0, low, 2.0, 9, p)))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a suite over invented collections, of which three of six are missing."""
    folder = tmp_path_factory.mktemp("suite")
    EXAMPLES["beir"](folder / "claims")
    EXAMPLES["demo"](folder / "elsewhere")
    EXAMPLES["beir"](folder / "several" / "one")
    EXAMPLES["beir"](folder / "several" / "two")
    (folder / "several" / "stray").mkdir()
    EXAMPLES["beir"](folder / "several" / "broken")
    (folder / "several" / "broken" / "queries.jsonl").write_text('{"_id": []}\n')
    (folder / "empty").mkdir()
    (folder / "none").mkdir()
    kept = Section("Gone", "2020-01-01", "a line", {"akin": "0"}, Figures(1, 1, (row("x", ALL, "MAP", 5.0),)))
    write_sections(folder / "figures.json", {"gone": kept})
    given = {"grid": folder / "elsewhere"}
    ran = run_suite(folder, folder / "figures.json", QUICK, command="c", elsewhere=given, parts=PARTS)
    assert ("claims", "grid", "several") == ran.measured
    assert {"gone", "empty", "none"} == ran.left.keys()
    assert "none holds no folder" in ran.left["none"]
    assert "gone is not there" in ran.left["gone"]
    assert "holds no abstracts-relish.jsonl" in ran.left["empty"]
    return folder / "figures.json"


def test_what_is_not_here_stays_as_it_was(measured: Path) -> None:
    """The section of a missing collection keeps its figures and day; a measured one has today's day."""
    sections = read_sections(measured)
    assert ["claims", "grid", "several", "gone"] == list(sections)
    assert ("2020-01-01", 5.0) == (sections["gone"].day, sections["gone"].figures.rows[0].value)
    assert sections["claims"].day > "2026"
    assert "numpy" in sections["claims"].packages


def test_a_part_holds_its_systems_figures_and_comparisons(measured: Path) -> None:
    """A section has two measures per system, the pairs measured alone, and the counts of papers read."""
    claims = read_sections(measured)["claims"].figures
    systems = ("bm25", "hashing:ot", "hashing:document")
    named = {(system, measure) for system in systems for measure in ("nDCG@10", "MAP")}
    assert named == {(each.system, each.measure) for each in claims.rows}
    assert (3, 2) == (claims.n_papers, claims.n_queries)
    assert {("bm25", "hashing:ot")} == {(each.a, each.b) for each in claims.compared}
    assert all(not math.isnan(each.comparison.p_corrected) for each in claims.compared)


def test_the_mean_of_several_collections_counts_each_alike(measured: Path) -> None:
    """The mean over two equal collections is their figure; folders without one that can be read are noted."""
    figures = read_sections(measured)["several"].figures
    rows = figures.rows
    assert [note for note in figures.notes if "Left out: stray holds no corpus" in note]
    assert [note for note in figures.notes if "Left out: " in note and "broken" in note and "no _id" in note]
    found = {(each.facet, each.measure): each for each in rows}
    assert found["one", "MAP"].value == found["two", "MAP"].value == found[ALL, "MAP"].value
    assert (2, True) == (found[ALL, "MAP"].n, math.isnan(found[ALL, "MAP"].low))


def test_the_file_has_a_line_a_figure_and_reads_back(measured: Path, tmp_path: Path) -> None:
    """Reading and writing gives the same bytes, with nan as null and without paths of this machine."""
    content = measured.read_text(encoding="utf-8")
    sections = read_sections(measured)
    write_sections(tmp_path / "again.json", sections)
    assert content == (tmp_path / "again.json").read_text(encoding="utf-8")
    figures = [line for line in content.splitlines() if '"system"' in line]
    assert len(figures) == sum(len(section.figures.rows) for section in sections.values())
    assert str(measured.parent) not in content
    assert "NaN" not in content
    assert json.loads(content)["sections"]


@pytest.mark.parametrize("content", ["[]", '{"sections": []}'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: str) -> None:
    """A file of another kind is refused by name."""
    (tmp_path / "other.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"other\.json holds no figures of a suite"):
        read_sections(tmp_path / "other.json")


def test_an_unknown_part_is_named(tmp_path: Path) -> None:
    """An unknown part is refused with the known ones."""
    with pytest.raises(UnknownNameError, match="Unknown part 'x'; known: claims, grid"):
        run_suite(tmp_path, tmp_path / "f.json", QUICK, command="c", only=("x",), parts=PARTS)


def test_every_part_names_systems_that_there_are() -> None:
    """The systems of every part parse, and compared ones are measured or published."""
    for part in SUITE.values():
        assert isinstance(part.task, Task)
        task = part.task.ranking if isinstance(part.task, MultiSetRanking) else part.task
        if not isinstance(task, Ranking):
            continue
        systems = {name.format(encoder="minilm") for name in task.systems}
        for name in systems:
            parse(name)
        pairs = {name.format(encoder="minilm") for pair in task.pairs for name in pair}
        assert {name for name in pairs if not name.endswith("(published)")} <= systems
    assert Facets() == SUITE["facets"].task


def test_documents_are_made_of_the_file(measured: Path) -> None:
    """The text between marks is replaced by tables, the rest stays, and filling again changes nothing."""
    sections = read_sections(measured)
    text = "".join(
        f"Before.\n\n<!-- {kind} -->\nbygone\n<!-- end -->\n\nAfter.\n"
        for kind in ("figures: claims bm25 document", "comparisons: claims", "source: claims")
    )
    made = filled(text, sections)
    value = next(r.value for r in sections["claims"].figures.rows if (r.system, r.measure) == ("bm25", "MAP"))
    assert re_line(made, "| `bm25` |").count(f"{value:.1f} [") >= 1
    assert "`hashing:ot` |" not in made.partition("After.")[0]
    assert "| `bm25` | `hashing:ot` |" in made
    assert "Measured on" in made
    assert "bygone" not in made
    assert 3 == made.count("Before.")
    assert made == filled(made, sections)


def re_line(text: str, begin: str) -> str:
    """Return the first line with this beginning."""
    return next(line for line in text.splitlines() if line.startswith(begin))


def test_a_document_that_names_no_part_is_refused() -> None:
    """A page that names a missing part is refused."""
    with pytest.raises(InputError, match="hold no part 'lost'"):
        filled("<!-- figures: lost -->\n<!-- end -->", {})


def test_tables_for_documents() -> None:
    """Measures are columns if facets do not differ, the best system is first, and signs are escaped."""
    rows = [row("b_m", ALL, "MAP", 50.0), row("a%|", ALL, "MAP", 60.0), row("a%|", ALL, "nDCG", 70.0)]
    (table,) = figure_tables(rows)
    expected = "| system | MAP | nDCG |\n|---|---|---|\n| `a%\\|` | 60.0 [1.0, 5.0] | 70.0 [1.0, 5.0] |\n"
    assert expected + "| `b_m` | 50.0 [1.0, 5.0] |  |" == table.markdown()
    latex = table.latex()
    assert r"b\_m & 50.0 [1.0, 5.0] &  \\" in latex
    assert r"\begin{tabular}{lrr}" in latex
    assert r"a\%|" in latex
    faceted = list(figure_tables([*rows, row("b_m", "method", "MAP", 40.0)]))
    assert [("system", "nDCG"), ("system", "method", "all")] == [each.columns for each in faceted]
    assert isinstance(table, TextTable)


def test_a_comparison_says_whether_it_holds_with_all_counted() -> None:
    """A verdict is yes, alone or no, by the corrected p and by the comparison's own interval."""
    found = corrected([compared("a", "b", 0.01), compared("a", "c", 0.03), compared("a", "d", 0.5, low=-0.5)])
    assert ["yes", "alone", "no"] == [each.comparison.verdict for each in found]
    assert "| `a` | `b` | +1.0 [0.5, 2.0], yes |" in comparison_table(found).markdown()


def test_the_least_loss_is_first() -> None:
    """The smallest loss is first, but the largest of any other measure."""

    def systems(measure: str) -> list[str]:
        rows = [
            Row("set", name, "all", "all", measure, value, 1.0, 99.0, 9)
            for name, value in (("a", 30.0), ("b", 20.0), ("c", 40.0))
        ]
        return [line[0] for table in figure_tables(rows) for line in table.lines]

    assert systems("loss") == ["b", "a", "c"]
    assert systems("MAP") == ["c", "a", "b"]


@pytest.mark.parametrize(("measure", "order"), [("loss", "bac"), ("MAP", "cab")])
def test_a_terminal_shows_the_best_first_and_green(measure: str, order: str) -> None:
    """The smallest loss is first and marked as best, but the largest of any other measure."""
    rows = [
        Row("set", name, "all", "all", measure, value, 1.0, 99.0, 9)
        for name, value in (("a", 30.0), ("b", 20.0), ("c", 40.0))
    ]
    *_, table = (each for each in row_tables(rows).renderables if isinstance(each, Table))
    systems, values = (list(column.cells) for column in table.columns)
    assert order == "".join(map(str, systems))
    marked = [isinstance(each, Text) and "green" in str(each.spans) + str(each.style) for each in values]
    assert [True, False, False] == marked, values


def test_a_misspelt_folder_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    """`akin evaluate suite` refuses a folder that is not there, instead of measuring the demo grid alone."""
    file = tmp_path / "figures.json"
    given = ("--encoder", "hashing", "--only", "demo", "--limit-queries", "8")
    shown = run("evaluate", "suite", tmp_path / "absent", "--json", file, *given, status=2)
    assert "does not exist" in flat(shown)
    assert not file.exists()


def test_the_command_measures_and_fills_pages(tmp_path: Path) -> None:
    """`akin evaluate suite` names the parts left out, writes the file, and fills the pages' tables."""
    (tmp_path / "page.md").write_text("<!-- figures: demo bm25 -->\n<!-- end -->\n", encoding="utf-8")
    file = tmp_path / "figures.json"
    given = (
        "--encoder",
        "hashing",
        "--only",
        "demo",
        "--limit-queries",
        "8",
        "--pages",
        tmp_path / "page.md",
    )
    shown = run("evaluate", "suite", tmp_path, "--json", file, *given, "--format", "markdown")
    assert "csfcube stays as it was: not named by --only." in flat(shown)
    assert "**demo: P@9, percent**" in shown
    assert "Note: Measured with --limit-queries 8." in shown
    section = read_sections(file)["demo"]
    assert "akin evaluate suite FOLDER --encoder hashing --limit-queries 8" == section.command
    assert "Measured with --limit-queries 8." in section.figures.notes
    bm25 = next(r for r in section.figures.rows if (r.system, r.measure, r.facet) == ("bm25", "MAP", ALL))
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert f"{bm25.value:.1f} [{bm25.low:.1f}, {bm25.high:.1f}] |" in page
    words = [*map(str, ("evaluate", "suite", tmp_path, "--json", file, *given, "--format", "json"))]
    assert ["demo"] == list(json.loads(CliRunner().invoke(app, words).stdout))


@pytest.mark.parametrize(
    ("form", "begin"),
    [("latex", r"\begin{tabular}"), ("json", '"rows": ['), ("markdown", "| system |")],
)
def test_figures_in_every_format(form: str, begin: str) -> None:
    """Figures are printed as LaTeX, JSON and Markdown."""
    shown = run("evaluate", *FEW, "--format", form)
    assert begin in shown
    assert all(name in shown for name in ("bm25", "tfidf"))


def test_runs_of_one_system_and_their_mean(tmp_path: Path) -> None:
    """`akin evaluate runs A B --mean` gives each run's figures and their mean."""
    run(
        "evaluate",
        "demo",
        "--limit-queries",
        "8",
        "--system",
        "bm25",
        "--system",
        "tfidf",
        "--runs",
        tmp_path,
    )
    a, b, file = tmp_path / "bm25.run", tmp_path / "tfidf.run", tmp_path / "figures.json"
    run("evaluate", "runs", a, b, "--set", "demo", "--mean", "--json", file)
    rows = json.loads(file.read_bytes())
    rows = [each for each in rows if (each["facet"], each["measure"]) == (ALL, "MAP")]
    values = {each["system"]: each["value"] for each in rows}
    assert pytest.approx((values["bm25"] + values["tfidf"]) / 2) == values["mean of 2 runs"]


def test_many_runs_are_compared_with_the_first(tmp_path: Path) -> None:
    """Each run is compared with the first, with p values corrected for their number."""
    run(
        "evaluate",
        "demo",
        "--limit-queries",
        "8",
        "--system",
        "bm25",
        "--system",
        "tfidf",
        "--runs",
        tmp_path,
    )
    a, b, c, file = *(tmp_path / f"{name}.run" for name in ("bm25", "tfidf", "word2vec")), tmp_path / "d.json"
    c.write_text(b.read_text().replace("tfidf", "third"), encoding="utf-8")
    shown = run("evaluate", "compare", a, b, c, "--set", "demo", "--json", file)
    assert "bm25 − tfidf" in shown
    assert "bm25 − third" in shown
    rows = json.loads(file.read_bytes())
    assert {"tfidf", "third"} == {each["b"] for each in rows}
    assert all(each["p_corrected"] >= each["p"] for each in rows)
    assert any(each["p_corrected"] > each["p"] for each in rows)


def test_an_indexed_collection_and_labelled_sentences_are_parts(
    hashed_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The candidate stage, known items, facets and functions are measured into the same file.

    No cluster of the environment is joined for it.
    """
    monkeypatch.setenv("AKIN_RAY", "127.0.0.1:1")
    parts = {
        "candidates": Part("Candidates", "collection", Candidates(("hnsw",))),
        "items": Part("KnownItemTask", "collection", KnownItemTask()),
        "facets": Part("Facets", "labels", Facets()),
        "functions": Part("Functions", "labels", Functions()),
    }
    EXAMPLES["functions"](tmp_path / "labels")
    quick = replace(QUICK, limit_queries=6)
    elsewhere = {"candidates": hashed_data, "items": hashed_data}
    file = tmp_path / "figures.json"
    ran = run_suite(tmp_path, file, quick, command="c", elsewhere=elsewhere, parts=parts)
    assert tuple(parts) == ran.measured
    found = {name: section.figures for name, section in read_sections(file).items()}
    assert (100, 6) == (found["candidates"].n_papers, found["candidates"].n_queries)
    recall = {row.system for row in found["candidates"].rows if row.measure == "recall"}
    assert {"hnsw, depth 10", "hnsw, depth 20", "hnsw, depth 50"} == recall
    assert {"success@1", "success@10", "nDCG@10"} == {row.measure for row in found["items"].rows}
    assert {"micro-F1", "macro-F1", "F1"} == {row.measure for row in found["facets"].rows}
    assert {"MAP@R", "P@1"} == {row.measure for row in found["functions"].rows}
