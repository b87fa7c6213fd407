"""Tests of the figures in documents: generated from docs/measured, equal to its files, or dated records."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.indexing.sizes import exponents
from benchmarks.on_device import page as on_device
from benchmarks.relevance.objectives import page as objectives_page
from benchmarks.serving import latency_page
from benchmarks.suite.report import page, picture, read_others
from benchmarks.suite.rows import STAGES, Row
from evaluation.suite.figures import read_sections
from evaluation.suite.listing import SUITE
from evaluation.suite.page import filled
from evaluation.tasks.functions import Functions
from evaluation.tasks.ranking import Ranking
from tests.support.builds import ROOT
from tests.support.documents import DOCUMENTS

# The service's default in the suite: with a collection's facet labels, and with predicted facets.
DEFAULT = "minilm:ot:focus:words"
TAGGED = "minilm:ot:focus:tagged:words"
MEASURED = ROOT / "docs" / "measured"
CSFCUBE = read_sections(MEASURED / "evaluation.json")["csfcube"]
TXTAI = read_sections(MEASURED / "txtai.json")
# The machine of an invented page of speed.
MACHINE = {
    **dict.fromkeys(("processor", "system", "day", "commit"), "x"),
    "cores": 2,
    "memory_gib": 8,
    "packages": {},
}
STAGE = Row(STAGES, "search by id: explaining", "ms", 3.0, "the whole search", 10.0, 0.3)
# Pages generated as a whole from files; a test compares each with its file.
MADE = {
    MEASURED / f"{name}.md"
    for name in ("gpu", "objectives", "objectives-gpu", "performance", "real-corpus", "scale", "two-million")
}
BETWEEN_MARKS = re.compile(r"<!-- (?:figures|comparisons|source): .*?<!-- end -->", re.S)
CODE = re.compile(r"```.*?```|`[^`]*`", re.S)
# A figure with its interval, and a figure (in percent or points) with one decimal.
INTERVAL = re.compile(r"([+−-]?\d+(?:\.\d+)?) \[([+−-]?\d+(?:\.\d+)?), ([+−-]?\d+(?:\.\d+)?)\]")
FIGURE = re.compile(r"\[[+−-]?\d+(?:\.\d+)?, [+−-]?\d+(?:\.\d+)?\]|(?<![\d.])\d\d\.\d(?!\.?\d)")
# In tables also times, and figures with their spread.
TABLED = re.compile(rf"{FIGURE.pattern}|\d ms\b|±")
# A date, or a note that the figures are published by others.
DATE = re.compile(r"20\d\d-\d\d-\d\d|[Pp]ublished figures")
# The rows of the table of docs/explanation/reliability.md, each with its step in sizes.json.
STEPS = {
    "`akin index`": "index",
    "`akin index`, 1,000 more": "add",
    "`akin delete`, 1 paper": "delete",
    "`akin compact`": "merge",
    "open, as commands do": "open",
    "start, as the service does": "start",
    "add 1 paper and publish it, median of 1,000": "singles",
    "query by id, median": "queries",
    "the same after 1,000 single additions": "queries after",
    "the same after `akin compact`": "queries merged",
}


def in_suite(system: str) -> str:
    """Return NDCG%20 of a system on CSFCube in the suite's file, with its interval."""
    (found,) = [
        row
        for row in CSFCUBE.figures.rows
        if (row.system, row.measure, row.facet, row.fold) == (system, "NDCG%20", "all", "all")
    ]
    return f"{found.value:.1f} [{found.low:.1f}, {found.high:.1f}]"


def lead_in_suite(system: str, other: str) -> tuple[str, bool]:
    """Return the lead over the other system in NDCG%20 on CSFCube, and whether it is significant."""
    (found,) = [
        each.comparison
        for each in CSFCUBE.figures.compared
        if (each.a, each.b, each.comparison.measure) == (system, other, "NDCG%20")
    ]
    lead = found.difference
    return f"{lead.value:.1f} [{lead.low:.1f}, {lead.high:.1f}]", found.holds


def test_the_figures_of_the_first_page_are_those_measured() -> None:
    """README gives NDCG%20 with predicted facets, its lead over BM25 and that it may be chance."""
    first = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"({CSFCUBE.figures.n_queries} aspect queries, {CSFCUBE.day})" in first
    assert f"with the facets that Akin predicts reaches NDCG%20 {in_suite(TAGGED)}, which" in first
    bm25, bm25_holds = lead_in_suite(TAGGED, "bm25")
    n_compared = len({each.key for each in CSFCUBE.figures.compared})
    chance = "too few queries for a lead that is significant when corrected for all"
    assert f"which is {bm25} above BM25: {chance} {n_compared} comparisons (Holm)." in first
    assert not bm25_holds


def test_the_comparison_with_txtai_has_the_suites_figures() -> None:
    """The default has the figures of the suite there, with predicted facets and with labels."""
    rows = TXTAI["txtai"].figures.rows
    measured = {row.system: f"{row.value:.1f}" for row in rows if row.measure == "NDCG%20"}
    assert {DEFAULT, TAGGED, "txtai", "txtai-hybrid"} == set(measured)
    for system in (DEFAULT, TAGGED):
        assert in_suite(system).split()[0] == measured[system]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_tables_of_quality_are_made_from_the_suites_file(path: Path) -> None:
    """The text between the marks of a page is made from the suite's file, or from that of txtai."""
    text = path.read_text(encoding="utf-8")
    assert filled(text, {**read_sections(MEASURED / "evaluation.json"), **TXTAI}) == text


def test_the_page_of_quality_holds_a_table_of_every_part_that_was_measured() -> None:
    """Every section of the suite's file has a table on the page."""
    text = (ROOT / "docs" / "measured" / "evaluation.md").read_text(encoding="utf-8")
    sections = read_sections(ROOT / "docs" / "measured" / "evaluation.json")
    assert len(sections) > 5
    assert [] == [name for name in sections if f"<!-- figures: {name}" not in text]


def test_the_page_of_quality_shows_every_part_or_says_that_it_was_not_measured() -> None:
    """Each part of the suite has a table or is named at the end; each section before the end has a table."""
    text = (ROOT / "docs" / "measured" / "evaluation.md").read_text(encoding="utf-8")
    *sections, rest = text.split("\n## ")[1:]
    assert rest.startswith("Not measured here\n")
    assert [] == [each.partition("\n")[0] for each in sections if "\n<!-- figures: " not in each]
    named = re.sub(r"[^a-z0-9]", "", rest.lower())
    left = [name for name in SUITE if f"<!-- figures: {name}" not in text]
    assert left
    assert [] == [name for name in left if re.sub(r"[^a-z0-9]", "", name).removesuffix("s") not in named]


def test_the_file_compares_the_pairs_of_each_part() -> None:
    """A part's comparisons in the suite's file are those that the suite names, all of them."""
    sections = read_sections(MEASURED / "evaluation.json")
    named = {}
    for name in sections:
        task = SUITE[name].task
        if isinstance(task, Ranking | Functions):
            named[name] = {(a.format(encoder="minilm"), b.format(encoder="minilm")) for a, b in task.pairs}
    assert "functions" in named
    assert named == {name: {(each.a, each.b) for each in sections[name].figures.compared} for name in named}


def test_the_page_of_speed_is_made_from_its_figures() -> None:
    """performance.md and its picture are generated from performance.json."""
    results = json.loads((ROOT / "docs" / "measured" / "performance.json").read_text(encoding="utf-8"))
    expected = (ROOT / "docs" / "measured" / "performance.md").read_text(encoding="utf-8")
    assert page(results, read_others(MEASURED)) == expected
    drawn = (ROOT / "docs" / "measured" / "performance.svg").read_text(encoding="utf-8")
    assert picture(results) == drawn


def test_the_page_of_two_million_rows_is_made_from_its_figures() -> None:
    """two-million.md is generated from two-million.json, and judges the goals for so many rows."""
    results = json.loads((MEASURED / "two-million.json").read_text(encoding="utf-8"))
    assert page(results) == (MEASURED / "two-million.md").read_text(encoding="utf-8")
    judged = [row for row in results["rows"] if row["goal"] == "P4" and row["is_met"] is not None]
    assert judged
    assert all("2,000,000 rows" in row["what"] for row in judged)


def test_the_page_of_real_papers_is_made_from_its_figures() -> None:
    """real-corpus.md is generated from real-corpus.json, and its goals are those of the suite."""
    results = json.loads((MEASURED / "real-corpus.json").read_text(encoding="utf-8"))
    assert latency_page.page(results) == (MEASURED / "real-corpus.md").read_text(encoding="utf-8")
    assert {"P4", "P5", "P6", "P7", "P8"} <= {row["goal"] for row in results["rows"]}


@pytest.mark.parametrize("name", ["objectives", "objectives-gpu"])
def test_the_pages_of_objectives_are_made_from_their_figures(name: str) -> None:
    """objectives.md and objectives-gpu.md are generated from their JSON files."""
    measured = ROOT / "docs" / "measured"
    results = json.loads((measured / f"{name}.json").read_text(encoding="utf-8"))
    assert objectives_page.page(results) == (measured / f"{name}.md").read_text(encoding="utf-8")


def test_the_page_of_gpus_is_made_from_its_figures() -> None:
    """gpu.md is generated from gpu.json, and no result in it is wrong."""
    measured = ROOT / "docs" / "measured"
    results = json.loads((measured / "gpu.json").read_text(encoding="utf-8"))
    assert on_device.page(results) == (measured / "gpu.md").read_text(encoding="utf-8")
    assert [] == [row["what"] for own in results["rows"].values() for row in own if row["is_right"] is False]


def undated(text: str) -> list[str]:
    """Return the sections, by heading, and the tables, by first line, with typed figures and without a date.

    The date of a table is in it, or between it and the table or the heading before it.
    """
    typed = CODE.sub("", BETWEEN_MARKS.sub("", text))
    sections = re.split(r"^(?=## )", typed, flags=re.M)
    found = [each.partition("\n")[0] for each in sections if FIGURE.search(each) and not DATE.search(each)]
    before = ""
    for block in re.split(r"\n{2,}", typed):
        is_table = block.startswith("|")
        if is_table and TABLED.search(block) and not DATE.search(before + block):
            found.append(block.partition("\n")[0])
        before = block if block.startswith("#") else "" if is_table else f"{before}\n{block}"
    return found


@pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if path not in MADE], ids=lambda path: str(path.relative_to(ROOT))
)
def test_a_figure_that_somebody_typed_has_its_day(path: Path) -> None:
    """A typed figure is a record of its date; current figures are generated from a file."""
    assert [] == undated(path.read_text(encoding="utf-8"))


def test_a_figure_without_its_day_is_seen() -> None:
    """Versions, addresses and generated figures do not count as typed figures."""
    dated = "## A\nOn 2026-11-20 it was 61.2 [50.1, 70.3].\n"
    made = "## B\n<!-- figures: csfcube -->\n61.2 [50.1, 70.3]\n<!-- end -->\nVersion 2.13.0, 127.0.0.1.\n"
    assert ["## C", "## D"] == undated(f"{dated}{made}## C\nIt is 61.2.\n## D\nIt is +1 [0, 2].\n")


def test_every_table_of_figures_has_its_day() -> None:
    """A date before another table does not count, nor one in the heading if a table stands between."""
    first, second = "| first |\n|---|\n| 61.2 |", "| second |\n|---|\n| 3 ms |"
    assert [] == undated(f"## A, 2026-11-20\n\n{first}\n")
    assert ["| second |"] == undated(f"## A, 2026-11-20\n\n{first}\n\nThe other:\n\n{second}\n")
    assert [] == undated(f"## A, 2026-11-20\n\n{first}\n\nOn 2026-11-21:\n\n{second}\n")


def intervals_in(text: str) -> set[tuple[float, ...]]:
    """Return the figures with their intervals; a difference and its negative count as one."""
    found = ([float(part.replace("−", "-")) for part in each] for each in INTERVAL.findall(text))
    return {max((value, low, high), (-value, -high, -low)) for value, low, high in found}


@pytest.mark.parametrize(
    ("name", "section", "source"),
    [
        ("README.md", "# Akin", "docs/measured/evaluation.md"),
        ("docs/how-to/training.md", "**Which one?**", "docs/measured/objectives.md"),
        ("docs/how-to/functions.md", "## How well it works", "docs/how-to/functions.md"),
    ],
)
def test_text_that_quotes_a_table_says_what_the_table_says(name: str, section: str, source: str) -> None:
    """Every interval outside the generated tables is also in one of these tables."""
    made = (ROOT / source).read_text(encoding="utf-8")
    made = "".join(BETWEEN_MARKS.findall(made)) or made
    text = BETWEEN_MARKS.sub("", (ROOT / name).read_text(encoding="utf-8"))
    quoted = " ".join(text[text.index(section) :].partition("\n## ")[0].split())
    assert intervals_in(quoted)
    assert set() == intervals_in(quoted) - intervals_in(made)


def test_the_table_of_cost_against_size_is_that_of_its_file() -> None:
    """Times to three digits, the exponents from each size to the next, memory in whole MiB."""
    sizes = json.loads((MEASURED / "sizes.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "explanation" / "reliability.md").read_text(encoding="utf-8")
    table = text.partition("### Cost against size")[2].partition("![")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if "|" in line]
    assert list(STEPS) == [row[0] for row in rows[2:]]
    for title, times, powers, own, peak in rows[2:]:
        steps = [size[STEPS[title]] for size in sizes.values()]
        shown, unit = times.rsplit(" ", 1)
        seconds = [float(each.replace(",", "")) * (1e-3 if unit == "ms" else 1) for each in shown.split(", ")]
        assert seconds == pytest.approx([step["processor_s"] for step in steps], rel=5e-3)
        expected = exponents([(int(n), size[STEPS[title]]["processor_s"]) for n, size in sizes.items()])
        assert [float(power) for power in powers.split(", ")] == pytest.approx(expected, abs=0.0051)
        for cell, name in ((own, "private_mib"), (peak, "peak_mib")):
            assert cell == ", ".join(f"{step[name]:,.0f}" for step in steps)


def test_the_memory_of_a_service_is_that_of_its_runs() -> None:
    """The table of sizes on the deployment page has the own memory of queries, and 0.2 GB for the models."""
    sizes = json.loads((MEASURED / "sizes.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")
    for papers, run in sizes.items():
        (shown,) = re.findall(rf"^\| {int(papers):,} \| [^|]+ \| ([\d.]+) GB \|", page, re.MULTILINE)
        assert f"{run['queries']['private_mib'] * 2**20 / 1e9 + 0.2:.1f}" == shown


def page_of(*rows: Row) -> str:
    """Return the page of a run with these rows."""
    return page({"suite": "quick", "machine": MACHINE, "rows": [asdict(row) for row in rows]})


@pytest.mark.parametrize(("ours", "missed"), [(6.0, True), (4.0, False)])
def test_a_missed_goal_has_its_reason(ours: float, missed: bool) -> None:
    """A goal that is met has no reason, and stages are not goals."""
    text = page_of(Row("P5", "search by id", "ms", ours, most=5.0), STAGE)
    assert missed == ("Why not all goals are met here" in text)
    assert f"**{1 - missed} of 1 goals are met.**" in text
    assert f"## {STAGES}" not in text


def test_goals_for_a_kernel_in_c_are_counted_apart() -> None:
    """The sentence and the table judge them, also where a row has no other goal."""
    both = Row("P1", "re-rank", "ms", 5.0, "one", 165.0, 33.0, least=25, in_c=100)
    alone = Row("P1", "re-rank", "ms", 5.0, "another", 500.0, 100.0, in_c=290)
    stated = page_of(both, alone)
    assert "**1 of 1 goals are met; of the 2 for a kernel in C, which Akin does not have, none.**" in stated
    assert "| at least 25x; in C at least 100x | yes; in C: no |" in stated
    assert "| in C at least 290x | in C: no |" in stated


def test_a_ratio_says_which_of_the_two_is_faster() -> None:
    """Akin is so many times as fast, takes so many times as long, or answers so many times as many."""
    faster = Row("", "search", "ms", 2.0, "another", 10.0, 5.0)
    slower = Row("", "search", "ms", 10.0, "another", 2.0, 5.0, (4.0, 6.0))
    rate = Row("", "4 clients", "searches a second", 40.0, "one client", 80.0, 0.5)
    text = page_of(faster, slower, rate)
    assert "| search | 2 ms | another | 10 | 5x as fast |" in text
    assert "| search | 10 ms | another | 2 | 5x as long [4, 6] |" in text
    assert "| 4 clients | 40 searches a second | one client | 80 | 0.5x as many |" in text


def test_stages_are_shares_of_the_whole() -> None:
    """Without stages, the page has neither this section nor references to it."""
    assert "| search by id: explaining | 3 ms | 30 % |" in page_of(STAGE).split("## Where the time")[1]
    bare = page_of(Row("P5", "search by id", "ms", 6.0, most=5.0))
    assert "Where the time" not in bare
    assert "below" not in bare


def test_the_reason_of_a_missed_goal_gives_the_longest_parts() -> None:
    """They are the three largest shares of that search; what is measured apart from it is none."""
    missed = Row("P6", "search by a typed sentence", "ms", 6.0, "the encoder", 3.0, 2.0, most=1.3)
    shares = {"encoding": 0.5, "finding candidates: all": 0.3, "the rest": 0.05, "explaining": 0.1}
    shares["measured before it: the encoder alone"] = 0.9
    stages = [
        Row(STAGES, f"search by a typed sentence: {part}", "ms", 1.0, "the whole", 2.0, share)
        for part, share in shares.items()
    ]
    longest = "encoding takes 50 %, finding candidates takes 30 %, explaining takes 10 %."
    assert f"Of a search by a typed sentence, {longest}" in page_of(missed, *stages)


def test_the_first_page_counts_the_goals_of_all_pages() -> None:
    """Goals of other pages count too, each in the column of its page."""
    met, missed = Row("P5", "search by id", "ms", 4.0, most=5.0), Row("P4", "candidates", "ms", 9.0, most=6.5)
    run = {"suite": "quick", "machine": MACHINE, "rows": [asdict(met)]}
    text = page(run, {"two-million": {"rows": [asdict(missed), asdict(met)]}})
    assert "**On all pages, 2 of 3 goals are met.**" in text
    assert "| P4: Finding candidates |  | 0 of 1 |" in text
    assert "| P5: Search by id | 1 of 1 | 1 of 1 |" in text
