"""The documents of the project, and the code and command lines in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.builds import ROOT

PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
DOCUMENTS = (*PAGES, ROOT / "CHANGELOG.md")
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.S | re.M)
_INDENTED = re.compile(r"^    (akin (?:.*\\\n)*.*)$", re.M)
_INLINE = re.compile(r"`(akin [^`]+)`")
_SHELL = {"", "sh", "bash", "console"}
_PYTHON = {"py", "python"}
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
# Pages with shell blocks that are run in order, and the beginnings of lines that are not run, because they
# need the network, never end, or make an environment.
RUN_IN_TURN = (
    ROOT / "README.md",
    *(ROOT / "docs" / "how-to" / name for name in ("corpora.md", "programs.md")),
)
NOT_RUN = ("make ", ". .venv", "pip ", "git ", "docker ", "akin worker", "akin index my.bib reading-list.txt")
SERVICE = "http://127.0.0.1:8000"


@dataclass(frozen=True)
class Block:
    """A block of code of a page; ``language`` is that of a fenced block, or ``indented``."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        first = next((line.strip() for line in self.text.splitlines() if line.strip()), "")
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line} [{self.language}] {first[:80]}"


def blocks_of(page: Path) -> list[Block]:
    """Return all blocks of a page in order; indented lines below an item of a list are text, not code."""
    lines = _text(page).splitlines()
    found: list[Block] = []
    item = False  # whether the lines belong to an item of a list
    at = 0
    while at < len(lines):
        begun = at
        if fence := re.match(r"( *)```(\w*)", lines[at]):
            at = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == "```")
            code = [re.sub(f"^{fence[1]}", "", line) for line in lines[begun + 1 : at]]
            found.append(Block(page, begun + 1, fence[2], "\n".join(code)))
        elif lines[at].startswith("    ") and not item and not "".join(lines[max(at - 1, 0) : at]).strip():
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            code = [line[4:] for line in lines[begun:at]]
            found.append(Block(page, begun + 1, "indented", "\n".join(code).strip("\n")))
            at -= 1
        elif lines[at].strip() and not lines[at].startswith(" "):
            item = bool(_ITEM.match(lines[at]))
        at += 1
    return found


def snippets() -> list[str]:
    """Return the Python blocks of README and of the library page, except those that use a service."""
    pages = (ROOT / "README.md", ROOT / "docs" / "how-to" / "library.md")
    return [code for page in pages for code in python_blocks(page) if SERVICE not in code]


def client_examples() -> list[str]:
    """Return the Python blocks of README and of the page on programs that use a service."""
    pages = (ROOT / "README.md", ROOT / "docs" / "how-to" / "programs.md")
    return [code for page in pages for code in python_blocks(page) if SERVICE in code]


def block_lines(page: Path) -> list[str]:
    """Return the lines of a page's shell blocks, with continued lines joined, without comments.

    ``.venv/bin/akin`` is ``akin``.
    """
    blocks = [code for language, code in _BLOCK.findall(_text(page)) if language in _SHELL]
    return [line.removeprefix(".venv/bin/") for code in blocks for line in _joined(code)]


def python_blocks(page: Path) -> list[str]:
    """Return the Python blocks of a page, without their indent."""
    blocks = re.findall(r"^( *)```py(?:thon)?\n(.*?)^ *```", _text(page), re.S | re.M)
    return [re.sub(rf"^{indent}", "", code, flags=re.M) for indent, code in blocks]


def shown_lines(page: Path) -> Iterator[str]:
    """Yield every ``akin`` command of a page, from shell blocks, indented lines and inline code."""
    text = _text(page)
    yield from (line for line in block_lines(page) if line.startswith("akin "))
    plain = _BLOCK.sub("", text)
    for line in _INDENTED.findall(plain):
        yield from _joined(line)
    for line in _INLINE.findall(plain):
        yield from _alternatives(" ".join(line.split()))


def words_of(line: str) -> list[str]:
    """Return the words of a line as a shell splits it, with optional words and without dots."""
    return [word for word in shlex.split(line.replace("[--", "--").replace("]", "")) if word != "..."]


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _joined(code: str) -> list[str]:
    """Return the logical lines of code, joined over open quotes and backslashes at line ends."""
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
    r"""Yield ``akin train facets\|functions`` as two lines, the last word replaced by each alternative."""
    head, *others = re.split(r"\s*\\\|\s*", line)
    yield head
    for other in others:
        if not other.startswith("-"):
            yield other if other.startswith("akin ") else f"{head.rsplit(' ', 1)[0]} {other}"
