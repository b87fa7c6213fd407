"""Output of answers as text, tables, JSON, CSV, BibTeX or RIS."""

from collections.abc import Sequence

import typer
from pydantic import TypeAdapter

from akin.cli.consoles import stderr, stdout
from akin.cli.options import Output
from akin.cli.render import answer_notes, recommendations_answer, search_answer, titles
from akin.client.responses.lists import TABLES
from akin.client.responses.matches import ComparedPapers
from akin.client.responses.papers import PaperList, TitlesAnswer
from akin.client.responses.ranked import RecommendationsAnswer, SearchAnswer
from akin.client.responses.sentences import SentenceAnswer

_Answer = SearchAnswer | RecommendationsAnswer | PaperList | TitlesAnswer | SentenceAnswer | ComparedPapers


def as_json(answer: _Answer) -> str:
    """Return an answer as the service's JSON, on one line."""
    return TypeAdapter(type(answer)).dump_json(answer).decode() + "\n"


def print_data(text: str) -> None:
    """Print text for programs in UTF-8, whatever the encoding of the terminal."""
    typer.echo(text.encode(), nl=False)


def print_answer(
    form: Output, answer: SearchAnswer | RecommendationsAnswer, *, lost: Sequence[str] = ()
) -> None:
    """Print a ranked list; ``lost`` are lines about requested papers that were left out.

    Remarks, such as that there is no good match, go to standard error if the format has no place for them.
    """
    if form is Output.TEXT:
        stdout.print(
            recommendations_answer(answer, lost)
            if isinstance(answer, RecommendationsAnswer)
            else search_answer(answer)
        )
    elif form is Output.TITLES:
        stdout.print(titles(answer))
    else:
        print_data(format_answer(form, answer))
    if form not in {Output.TEXT, Output.JSON}:
        for line in answer_notes(answer, lost):
            stderr.print(line, soft_wrap=True)


def format_answer(form: Output, answer: SearchAnswer | RecommendationsAnswer | PaperList) -> str:
    """Return an answer in a format for programs or, for results, as a table.

    No cell of CSV or TSV starts a formula.
    """
    if form is Output.JSON:
        return as_json(answer)
    # Imported here so that text output does not wait for it.
    from service.api.exports import papers_csv, to_bibtex, to_csv, to_ris

    if form in TABLES and not isinstance(answer, PaperList):
        return answer.to_table(form)
    papers = [each.about for each in answer]
    if form is Output.CSV:
        return papers_csv(papers) if isinstance(answer, PaperList) else to_csv(answer.results)
    return to_bibtex(papers) if form is Output.BIBTEX else to_ris(papers)
