"""What the documents point to."""

import json
import re
from pathlib import Path

import pytest

import akin
from benchmarks.relevance import objectives_page
from benchmarks.suite.report import page, picture
from evaluation.suite.figures import read_sections
from evaluation.suite.listing import SUITE
from evaluation.suite.page import filled

ROOT = Path(akin.__file__).parents[1]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
# What the service does, as a system of the suite.
DEFAULT = "minilm:ot:focus:words"
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
NAMED = re.compile(r"`([\w./-]+/[\w.-]*|[\w-]+\.(?:toml|md|lock))`")
FOLDERS = {"akin", "benchmarks", "docker", "docs", "evaluation", "indexer", "models", "service", "tests"}
# Pages of package registries: they show how to install a package, and its own documentation how to use it.
REGISTRY = re.compile(
    r"(?i)\b(?:[\w.-]+\.)?(?:pypi\.org|pypi\.python\.org|pythonhosted\.org|anaconda\.org|npmjs\.(?:com|org)"
    r"|crates\.io|rubygems\.org|pkg\.go\.dev)\b[^\s)>\]]*"
)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_packages_are_linked_by_their_own_documentation(path: Path) -> None:
    """No document sends a reader to the page of a package registry."""
    assert [] == REGISTRY.findall(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "text",
    ["[a](https://pypi.org/project/a/)", "see https://www.npmjs.com/package/a.", "<https://crates.io/a>"],
)
def test_a_page_of_a_registry_is_seen(text: str) -> None:
    """In a link, in a sentence and alone."""
    assert 1 == len(REGISTRY.findall(text))


def test_the_documents_are_found() -> None:
    """README, the changes and the pages of docs/, those of its folders too."""
    assert {"README.md", "CHANGELOG.md", "programs.md", "encoder.md"} <= {path.name for path in DOCUMENTS}


def anchors_of(document: Path) -> set[str]:
    """What a link into a document may end in: its headings, as GitHub and MkDocs write them."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_link_is_dead(path: Path) -> None:
    """Every link to a file leads to one, and to a heading of it where it names one."""
    text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(encoding="utf-8"), flags=re.S)
    dead = []
    for link in [one or other for one, other in LINK.findall(text)]:
        file, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = path.parent / file if file else path
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            dead.append(link)
    assert [] == dead


def test_no_table_of_the_first_page_is_long() -> None:
    """Ten rows at most: a longer one is a page of its own."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tables = re.findall(r"(?:^\|.*\n)+", text, re.M)
    assert tables
    assert 12 >= max(table.count("\n") for table in tables)


def test_the_figures_of_the_first_page_are_those_measured() -> None:
    """The default's NDCG%20 and its leads, as the suite's file has them: they were once left behind."""
    first = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    section = read_sections(ROOT / "docs" / "measured" / "evaluation.json")["csfcube"]
    (default,) = [
        row.value
        for row in section.figures.rows
        if (row.system, row.measure, row.facet, row.fold) == (DEFAULT, "NDCG%20", "all", "all")
    ]
    assert f"reaches NDCG%20 {default:.1f} with" in first
    assert f"aspect queries, {section.day})" in first
    leads = {
        each.b: each.comparison
        for each in section.figures.compared
        if (each.a, each.comparison.measure) == (DEFAULT, "NDCG%20")
    }
    for other, said in (("bm25", "above BM25"), ("specter (published)", "above SPECTER")):
        found = leads[other].difference
        assert f"{found.value:.1f} [{found.low:.1f}, {found.high:.1f}] {said}" in first
    n_compared = len({each.key for each in section.figures.compared})
    assert f"With all {n_compared} comparisons of that table counted, the lead over BM25 holds" in first
    assert "and that over SPECTER does not" in first
    assert (True, False) == (leads["bm25"].holds, leads["specter (published)"].holds)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_tables_of_quality_are_made_from_the_suites_file(path: Path) -> None:
    """What stands between the marks of a page is what `akin evaluate suite --pages` writes there."""
    text = path.read_text(encoding="utf-8")
    assert filled(text, read_sections(ROOT / "docs" / "measured" / "evaluation.json")) == text


def test_the_page_of_quality_holds_a_table_of_every_part_that_was_measured() -> None:
    """A part that nobody shows is measured for nothing."""
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


def test_the_newcomers_map_is_true() -> None:
    """Every file and folder that CONTRIBUTING names is there."""
    named = NAMED.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    folders = (ROOT, ROOT / "akin", ROOT / "tests")
    missing = [name for name in named if not any((folder / name).exists() for folder in folders)]
    assert len(named) > 30
    assert [] == missing


def repository_paths(text: str) -> list[str]:
    """Those paths of a document, between backticks, that begin with a folder of the repository."""
    return [name for name in NAMED.findall(text) if "/" in name and name.partition("/")[0] in FOLDERS]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_path_that_a_document_names_is_there(path: Path) -> None:
    """Files move; a document that names the old place sends its reader nowhere."""
    named = repository_paths(path.read_text(encoding="utf-8"))
    assert [] == [name for name in named if not (ROOT / name).exists()]


def test_paths_of_the_repository_are_told_from_others() -> None:
    """A test and a folder are paths; a route, a media type and a reader's folder are not."""
    text = "`tests/test_documents.py` and `models/text/`, not `/v1/search`, `text/csv`, `DIR/found.jsonl`"
    assert ["tests/test_documents.py", "models/text/"] == repository_paths(text)


def test_the_page_of_speed_is_made_from_its_figures() -> None:
    """Every figure of performance.md, and its picture, stands in performance.json beside it."""
    told = json.loads((ROOT / "docs" / "measured" / "performance.json").read_text(encoding="utf-8"))
    assert page(told) == (ROOT / "docs" / "measured" / "performance.md").read_text(encoding="utf-8")
    drawn = (ROOT / "docs" / "measured" / "performance.svg").read_text(encoding="utf-8")
    assert picture(told) == drawn


def test_the_page_of_objectives_is_made_from_its_figures() -> None:
    """Every figure of objectives.md stands in objectives.json beside it."""
    measured = ROOT / "docs" / "measured"
    told = json.loads((measured / "objectives.json").read_text(encoding="utf-8"))
    assert objectives_page.page(told) == (measured / "objectives.md").read_text(encoding="utf-8")
