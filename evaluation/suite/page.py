"""Documents with tables made from the suite's file, between marks that are invisible to readers.

<!-- figures: csfcube -->           every figure of the part
<!-- figures: csfcube alone: -->    only systems with one of the words in their name
<!-- comparisons: csfcube -->       its comparisons
<!-- source: csfcube -->            the day, the numbers of papers and queries, and the notes
<!-- end -->
"""

import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from evaluation.report.tables import LEGEND, comparison_table, figure_tables
from evaluation.suite.figures import Section, read_sections
from indexer.files.durable import replace_file, storage_errors
from models.errors import InputError

_WIDTH: Final = 130  # columns of a page's source
_MARK: Final = re.compile(
    r"(?P<begin><!-- (?P<kind>figures|comparisons|source): (?P<name>[\w-]++)"
    r"(?P<words>(?: (?!-->)[^\s<]++)*+) -->\n)"
    r"(?:[^<]++|<(?!!-- ))*+(?P<end><!-- end -->)"
)
# The name of a system in a note.
_SYSTEM: Final = re.compile(r"(?<![\w.-])([\w.-]++(?::[\w.-]++)++)")


def filled(text: str, sections: Mapping[str, Section]) -> str:
    """Return the text of a document with the content between its marks replaced; raises InputError."""

    def made(mark: re.Match[str]) -> str:
        if mark["name"] not in sections:
            raise InputError(f"The figures hold no part {mark['name']!r}; measure it, or remove its mark.")
        content = _KINDS[mark["kind"]](sections[mark["name"]], tuple(mark["words"].split()))
        return f"{mark['begin']}\n{content}\n\n{mark['end']}"

    return _MARK.sub(made, text)


def fill(documents: tuple[Path, ...], figures: Path) -> None:
    """Rewrite the documents; raises InputError and StorageError."""
    sections = read_sections(figures)
    for path in documents:
        with storage_errors(path):
            text = path.read_text(encoding="utf-8")
            replace_file(path, filled(text, sections).encode())


def _figures(section: Section, words: tuple[str, ...]) -> str:
    rows = section.figures.rows
    kept = [row for row in rows if not words or any(word in row.system for word in words)]
    tables = list(figure_tables(kept))
    if len(tables) == 1:
        return tables[0].markdown()
    return "\n\n".join(f"{table.title}:\n\n{table.markdown()}" for table in tables)


def _comparisons(section: Section, words: tuple[str, ...]) -> str:
    compared = section.figures.compared
    kept = [each for each in compared if not words or any(word in f"{each.a} {each.b}" for word in words)]
    return f"{comparison_table(kept).markdown()}\n\n{LEGEND}"


def _source(section: Section, _: tuple[str, ...]) -> str:
    figures = section.figures
    sizes = [f"{figures.n_papers:,} papers"] + [f"{figures.n_queries:,} queries"] * bool(figures.n_queries)
    notes = [_SYSTEM.sub(r"`\1`", note) for note in figures.notes]
    text = " ".join([f"Measured on {section.day}: {', '.join(sizes)}.", *notes])
    return "\n".join(textwrap.wrap(text, _WIDTH, break_on_hyphens=False))


_KINDS: Mapping[str, Callable[[Section, tuple[str, ...]], str]] = MappingProxyType(
    {"figures": _figures, "comparisons": _comparisons, "source": _source}
)
