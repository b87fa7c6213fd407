"""The documents that people read, and the code and command lines that they show."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.support.builds import ROOT

PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
DOCUMENTS = (*PAGES, ROOT / "CHANGELOG.md")
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.S | re.M)
_INDENTED = re.compile(r"^    (akin (?:.*\\\n)*.*)$", re.M)
_INLINE = re.compile(r"`(akin [^`]+)`")
_SHELL = {"", "sh", "bash", "console"}


def block_lines(page: Path) -> list[str]:
    """The lines of a page's shell blocks, those that go on joined, without what follows a ``#``."""
    blocks = [code for language, code in _BLOCK.findall(_text(page)) if language in _SHELL]
    return [line for code in blocks for line in _joined(code)]


def python_blocks(page: Path) -> list[str]:
    """The Python that a page shows, as it stands without its indent."""
    blocks = re.findall(r"^( *)```py(?:thon)?\n(.*?)^ *```", _text(page), re.S | re.M)
    return [re.sub(rf"^{indent}", "", code, flags=re.M) for indent, code in blocks]


def shown_lines(page: Path) -> Iterator[str]:
    """Every line of a page that begins with ``akin``, in any of the three places."""
    text = _text(page)
    yield from (line for line in block_lines(page) if line.startswith("akin "))
    plain = _BLOCK.sub("", text)
    for line in _INDENTED.findall(plain):
        yield from _joined(line)
    for line in _INLINE.findall(plain):
        yield from _alternatives(" ".join(line.split()))


def words_of(line: str) -> list[str]:
    """The words of a line as a shell takes them, optional ones among them and dots left out."""
    return [word for word in shlex.split(line.replace("[--", "--").replace("]", "")) if word != "..."]


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _joined(code: str) -> list[str]:
    """Lines of code; one ends where its quotes are closed and no backslash ends it."""
    lines: list[str] = []
    begun = ""
    for line in code.replace("\\\n", " ").splitlines():
        begun = f"{begun}\n{line}" if begun else line
        try:
            shlex.split(begun, comments=True)
        except ValueError:
            continue
        if kept := re.sub(r"\s+#\s.*$", "", begun).strip():
            lines.append(kept)
        begun = ""
    return lines


def _alternatives(line: str) -> Iterator[str]:
    r"""``akin train facets\|functions`` as two lines, of words that the last words of the first stand for."""
    head, *others = re.split(r"\s*\\\|\s*", line)
    yield head
    for other in others:
        if not other.startswith("-"):
            yield other if other.startswith("akin ") else f"{head.rsplit(' ', 1)[0]} {other}"
