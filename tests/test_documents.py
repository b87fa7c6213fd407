"""What the documents point to."""

import json
import re
from pathlib import Path

import pytest

import akin
from benchmarks.relevance import objectives_page
from benchmarks.suite.report import page, picture

ROOT = Path(akin.__file__).parents[1]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
NAMED = re.compile(r"`([\w./-]+/[\w.-]*|[\w-]+\.(?:toml|md|lock))`")
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
    """The default's NDCG%20 and its leads, as docs/evaluation.md has them: they were once left behind."""
    first, measured = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/evaluation.md")
    )
    (default,) = re.findall(r"reaches NDCG%20 ([\d.]+) with", first)
    assert re.search(rf"^\| `minilm:ot:focus:words`, the default \|.* {default} \[[^|]*\|$", measured, re.M)
    leads = re.findall(r"([\d.]+\s\[[\d.]+, [\d.]+\])\sabove\s", first)
    assert [True, True] == [f"+{' '.join(lead.split())} |" in measured for lead in leads]


def test_the_newcomers_map_is_true() -> None:
    """Every file and folder that CONTRIBUTING names is there."""
    named = NAMED.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    folders = {"": ROOT, "akin": ROOT / "akin", "tests": ROOT / "tests"}
    missing = [name for name in named if not any((folder / name).exists() for folder in folders.values())]
    assert len(named) > 30
    assert [] == missing


def test_the_page_of_speed_is_made_from_its_figures() -> None:
    """Every figure of docs/performance.md, and its picture, stands in docs/performance.json."""
    told = json.loads((ROOT / "docs" / "performance.json").read_text(encoding="utf-8"))
    assert page(told) == (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    drawn = (ROOT / "docs" / "images" / "performance.svg").read_text(encoding="utf-8")
    assert picture(told) == drawn


def test_the_page_of_objectives_is_made_from_its_figures() -> None:
    """Every figure of docs/objectives.md stands in docs/objectives.json."""
    told = json.loads((ROOT / "docs" / "objectives.json").read_text(encoding="utf-8"))
    assert objectives_page.page(told) == (ROOT / "docs" / "objectives.md").read_text(encoding="utf-8")
