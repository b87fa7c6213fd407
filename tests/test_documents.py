"""Tests of the documents and the code: links, paths, folders, names, decisions and the Python reference."""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import akin
from docs.site_pages import http_operations
from service.app import create_app
from tests.support.builds import ROOT
from tests.support.documents import DOCUMENTS

LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
NAMED = re.compile(r"`([\w./-]+/[\w.-]*|[\w-]+\.(?:toml|md|lock))`")
FOLDERS = {"akin", "benchmarks", "docker", "docs", "evaluation", "indexer", "models", "service", "tests"}
# The start of a decision: its title and, below, the line with its date.
DECIDED = re.compile(r"\A# .+\n\nDecided on \d{4}-\d\d-\d\d\.")
# Pages of package registries. Documents link to the documentation of a package instead.
REGISTRY = re.compile(
    r"(?i)\b(?:[\w.-]+\.)?(?:pypi\.org|pypi\.python\.org|pythonhosted\.org|anaconda\.org|npmjs\.(?:com|org)"
    r"|crates\.io|rubygems\.org|pkg\.go\.dev)\b[^\s)>\]]*"
)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_packages_are_linked_by_their_own_documentation(path: Path) -> None:
    """No document links to the page of a package registry."""
    assert [] == REGISTRY.findall(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "text",
    ["[a](https://pypi.org/project/a/)", "see https://www.npmjs.com/package/a.", "<https://crates.io/a>"],
)
def test_a_page_of_a_registry_is_seen(text: str) -> None:
    """The page is found in a link, in a sentence and alone."""
    assert 1 == len(REGISTRY.findall(text))


def test_the_documents_are_found() -> None:
    """DOCUMENTS holds README, CHANGELOG and the pages of docs/ and its folders."""
    assert {"README.md", "CHANGELOG.md", "programs.md", "encoder.md"} <= {path.name for path in DOCUMENTS}


def anchors_of(document: Path) -> set[str]:
    """Return the possible anchors of links into a document: its headings, as GitHub and MkDocs write them."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_link_is_dead(path: Path) -> None:
    """Every link to a file leads to an existing file and, if it names a heading, to an existing heading."""
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
    """A table has at most ten rows; a longer one belongs on a separate page."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tables = re.findall(r"(?:^\|.*\n)+", text, re.M)
    assert tables
    assert 12 >= max(table.count("\n") for table in tables)


def test_the_first_page_begins_with_three_commands() -> None:
    """Before the Python example, README has a picture and three commands, and nothing about Docker."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("```python")[0]
    assert "<picture>" in text.partition("```sh")[0]
    blocks = re.findall(r"```sh\n(.*?)```", text, re.S)
    assert [3] == [block.count("\n") for block in blocks]
    assert "docker" not in text.lower()


def test_the_newcomers_map_is_true() -> None:
    """Every file and folder named in CONTRIBUTING exists."""
    named = NAMED.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    folders = (ROOT, ROOT / "akin", ROOT / "tests")
    missing = [name for name in named if not any((folder / name).exists() for folder in folders)]
    assert len(named) > 30
    assert [] == missing


def repository_paths(text: str) -> list[str]:
    """Return the paths of a document, between backticks, that begin with a folder of the repository."""
    return [name for name in NAMED.findall(text) if "/" in name and name.partition("/")[0] in FOLDERS]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_path_that_a_document_names_is_there(path: Path) -> None:
    """Files move; every path of the repository named in a document exists."""
    named = repository_paths(path.read_text(encoding="utf-8"))
    assert [] == [name for name in named if not (ROOT / name).exists()]


def test_paths_of_the_repository_are_recognised() -> None:
    """A test and a folder are paths of the repository; a route, a media type and a user's folder are not."""
    text = "`tests/test_documents.py` and `models/text/`, not `/v1/search`, `text/csv`, `DIR/found.jsonl`"
    assert ["tests/test_documents.py", "models/text/"] == repository_paths(text)


PACKAGES = ("akin", "evaluation", "indexer", "models", "service")
MAX_FILES, MAX_LINES = 12, 300
VAGUE = frozenset({"asked", "told"})
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
NAMES_OF_ELEMENT = re.compile(r'\b(?:id|class)="([^"]*)"')


def python_folders(top: str) -> dict[str, list[Path]]:
    """Return the Python files of each folder in and below ``top``, except ``__init__.py``."""
    folders: dict[str, list[Path]] = {}
    for file in sorted((ROOT / top).rglob("*.py")):
        if file.name != "__init__.py" and "__pycache__" not in file.parts:
            folders.setdefault(f"{file.parent.relative_to(ROOT).as_posix()}/", []).append(file)
    return folders


def test_folders_are_those_of_the_decision_about_them() -> None:
    """A folder has at most a dozen files, and the page counts those of each folder of the packages."""
    tops = (*PACKAGES, "benchmarks", "tests")
    full = {name: len(files) for top in tops for name, files in python_folders(top).items()}
    assert {} == {name: n for name, n in full.items() if n > MAX_FILES}
    page = (ROOT / "docs" / "decisions" / "architecture" / "folders.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [a-z/]+/ \d.* \| (`.*/` \d.*) \|$", page, re.M)
    drawn = {name: int(n) for row in rows for name, n in re.findall(r"`([\w/]+/)` (\d+)", row)}
    assert {name: n for name, n in full.items() if name.startswith(PACKAGES)} == drawn


def test_no_file_of_a_package_is_long() -> None:
    """A file has at most 300 lines; a longer one holds two ideas or can be made shorter."""
    files = [file for top in PACKAGES for files in python_folders(top).values() for file in files]
    lines = {file.relative_to(ROOT).as_posix(): file.read_text("utf-8").count("\n") for file in files}
    assert {} == {name: n for name, n in lines.items() if n > MAX_LINES}


def names_in(file: Path) -> set[str]:
    """Return the names of the variables, parameters, attributes, functions and classes in a Python file.

    The file's own name is one of them.
    """
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    return (
        {file.stem}
        | {node.id for node in nodes if isinstance(node, ast.Name)}
        | {node.arg for node in nodes if isinstance(node, ast.arg | ast.keyword) and node.arg}
        | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        | {
            node.name
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }
    )


def vague(names: Iterable[str]) -> set[str]:
    """Return the names with a vague word in them, such as ``n_asked`` and ``AskedSentence``."""
    return {name for name in names if VAGUE & {word.lower() for word in WORD.findall(name)}}


def test_names_say_what_they_hold() -> None:
    """No name in the packages, benchmarks and tests has the word "asked" or "told", alone or among others."""
    files = {
        file.relative_to(ROOT).as_posix(): file
        for top in (*PACKAGES, "benchmarks", "docker", "docs", "tests")
        for files in python_folders(top).values()
        for file in files
    }
    found = {name: vague(names_in(file)) for name, file in files.items()}
    assert {} == {name: names for name, names in found.items() if names}


def test_names_on_the_page_say_what_they_hold() -> None:
    """No id and no class of the page's elements has the word "asked" or "told"."""
    templates = sorted((ROOT / "service" / "web" / "templates").rglob("*.html"))
    named = {path.name: set(NAMES_OF_ELEMENT.findall(path.read_text(encoding="utf-8"))) for path in templates}
    assert "query" in named["results.html"]
    assert {} == {name: vague(names) for name, names in named.items() if vague(names)}


def test_a_vague_word_is_found_within_a_name() -> None:
    """Words are separated by underscores, hyphens and capitals; "masked" has no vague word."""
    names = ("n_asked", "_asked", "AskedSentenceOut", "told_s", "was-told", "_ASKED", "UNMASKED", "n_papers")
    assert set(names[:6]) == vague((*names, "masked"))


def test_every_decision_is_in_the_index() -> None:
    """Each decision is a page with a date, in a folder of at most a dozen."""
    folder = ROOT / "docs" / "decisions"
    pages = sorted(folder.glob("*/*.md"))
    index = (folder / "index.md").read_text(encoding="utf-8")
    assert len(pages) > 60
    assert [] == [page.stem for page in pages if f"({page.relative_to(folder).as_posix()})" not in index]
    undated = [page for page in pages if not DECIDED.search(page.read_text(encoding="utf-8"))]
    assert [] == undated
    assert 12 >= max(len(list(each.iterdir())) for each in folder.iterdir() if each.is_dir())


def test_the_reference_of_python_is_whole() -> None:
    """The page has all names of ``akin.__all__``, and every module of answers."""
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    shown = re.findall(r"^::: (.+)$", page, re.M)
    answers = (ROOT / "akin" / "client" / "responses").glob("[a-z]*.py")
    wanted = {f"akin.client.responses.{path.stem}" for path in answers} - {"akin.client.responses.parsing"}
    objects = [getattr(akin, name) for name in akin.__all__]
    wanted |= {
        f"{each.__module__}.{each.__qualname__}" for each in objects if each.__module__ != "models.errors"
    }
    assert wanted | {"models.errors"} <= set(shown)


def test_the_reference_of_http_is_whole() -> None:
    """The page has every operation with its scope, parameters, body and answers, and all objects it links."""
    assert "<!-- operations -->" in (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
    api = create_app().openapi()
    page = "\n".join(http_operations(api))
    parts = {part.partition("\n")[0]: part for part in page.split("\n### ")}
    operations = [
        (f"`{method.upper()} {path}`", operation)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]
    assert len(operations) > 30
    for line, operation in operations:
        part = parts[line]
        assert operation["description"] in part
        named = [f"`{each['name']}` | {each['in']} |" for each in operation.get("parameters", ())]
        answers = [f"Answer {code}" for code, each in operation["responses"].items() if "$ref" not in each]
        assert [] == [each for each in (*named, *answers) if each not in part]
        assert ("requestBody" in operation) == ("\nBody, `application/json`: " in part)
    assert "Scope: `ingest`." in parts["`POST /v1/papers`"]
    assert "Scope: none, a key is not needed." in parts["`GET /livez`"]
    headings = re.findall(r"^#+ (.+)$", page, re.M)
    assert {link.lower() for link in re.findall(r"\]\(#([^)]*)\)", page)} <= {
        each.lower() for each in headings
    }
    assert set(api["components"]["schemas"]) <= set(headings)
    assert [] == [each for each in headings if "__" in each]


def test_the_reference_of_http_says_what_a_field_may_hold() -> None:
    """Limits, choices, defaults and required fields of objects are on the page in words."""
    page = "\n".join(http_operations(create_app().openapi()))
    for line in (
        "| `limit` | integer (1 to 100) | Papers on this page. Default: `10`. |",
        "| `paper_id` | path | string (1 to 2000 characters) | The id, DOI, arXiv id, address or title",
        "| The name of the profile. *Required.* |",
        "one of `background`, `objective`, `method`, `result`, `other`.",
        "| `year` | integer (1000 to 2100) or null |  |",
        "list (at most 100 items) of string (1 to 300 characters)",
    ):
        assert line in page
