"""Tables of results for a paper or a spreadsheet, with problem, method and result of each paper."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from typing import Final

from indexer.files.cells import escape_formulas
from service.api.exports import bibtex_keys, latex_text, one_line
from service.api.schemas.base import PaperOut
from service.api.schemas.search.results import ResultOut
from service.web.views.results.rows import key_sentences

_COLUMNS: Final = ("Paper", "Problem", "Method", "Result")
_SHEET: Final = ("Title", "Authors", "Year", "Venue", "DOI", "Match", "Problem", "Method", "Result")
# Widths that fit a page of the usual width with LaTeX's space between columns.
_LATEX_COLUMNS: Final = r"p{0.13\linewidth}p{0.22\linewidth}p{0.22\linewidth}p{0.22\linewidth}"
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>#|~^$&])")


def to_latex(results: Sequence[ResultOut]) -> str:
    """Return a ``tabular`` that needs no package and cites papers by their keys in the BibTeX export."""
    papers = [result.paper for result in results]
    lines = [r"\begin{tabular}{" + _LATEX_COLUMNS + "}", r"\hline", " & ".join(_COLUMNS) + r" \\", r"\hline"]
    for result, key in zip(results, bibtex_keys(papers), strict=True):
        paper = rf"{latex_text(_short(result.paper))}~\cite{{{key}}}"
        said = [latex_text(each) or "--" for each in _said(result)[1:]]
        # "{}" before a row: LaTeX takes a "[" or "*" right after the end of a row for its argument.
        lines.append("{}" + " & ".join([paper, *said]) + r" \\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}", ""])


def to_markdown(results: Sequence[ResultOut]) -> str:
    """Return a pipe table for GitHub and Pandoc."""
    rows = [[_named(result.paper), *_said(result)[1:]] for result in results]
    lines = [_COLUMNS, ("---",) * len(_COLUMNS), *([_markdown(each) or "–" for each in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def to_tsv(results: Sequence[ResultOut]) -> str:
    """Return tab-separated columns to paste into a spreadsheet; no cell starts a formula."""
    rows = [
        (
            result.paper.title,
            "; ".join(result.paper.authors),
            str(result.paper.year or ""),
            result.paper.venue or "",
            result.paper.doi or "",
            *_said(result),
        )
        for result in results
    ]
    written = io.StringIO()
    # Quoted as in CSV: what reads such a table takes a quotation mark at the start of a cell for a quote.
    table = csv.writer(written, delimiter="\t", lineterminator="\n")
    table.writerows([escape_formulas(one_line(each)) for each in row] for row in [_SHEET, *rows])
    return written.getvalue()


# The media type and writer of each table by its file extension.
TABLES: Final[dict[str, tuple[str, Callable[[Sequence[ResultOut]], str]]]] = {
    "tex": ("application/x-tex", to_latex),
    "md": ("text/markdown", to_markdown),
    "tsv": ("text/tab-separated-values", to_tsv),
}


def _said(result: ResultOut) -> list[str]:
    """Return the sentences for match, problem, method and result; "" if there is none, or no text."""
    key, paper = key_sentences(result), result.paper
    numbers = (key.match, key.problem, key.method, key.result)
    known = dict(enumerate(paper.sentences))  # none if the answer was requested without them
    spans = [None if number is None else known.get(number) for number in numbers]
    return ["" if span is None else paper.abstract[span.start : span.end] for span in spans]


def _short(paper: PaperOut) -> str:
    """Return the authors and year: "Tollander and Subirana (2022)", or the title if it has no authors."""
    names = [name.split(",")[0] if "," in name else name.split(" ")[-1] for name in paper.authors]
    who = f"{names[0]} et al." if len(names) > 2 else " and ".join(names) or paper.title
    return f"{who} ({paper.year})" if paper.year else who


def _named(paper: PaperOut) -> str:
    return f"{_short(paper)}: {paper.title}" if paper.authors else _short(paper)


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", one_line(text))
