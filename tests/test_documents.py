"""What the documents point to."""

import re
from pathlib import Path

import pytest

import akin

ROOT = Path(akin.__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
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
