"""Rendering of answers for the terminal, with matching sentences marked."""

from collections.abc import Sequence
from typing import Final, Protocol

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.text import Text

from akin.cli.consoles import stdout
from akin.client.responses.papers import Paper, PaperSummary
from akin.client.responses.ranked import (
    Alignment,
    Query,
    Recommendation,
    RecommendationsAnswer,
    Result,
    SearchAnswer,
    SeedAlignment,
)
from akin.client.responses.saved import NewPaper
from models.counts import counted

_MAX_WORDS: Final = 6  # of each side
_STRENGTHS: Final = {"strong": "green", "fair": "yellow", "weak": "red"}
_MIN_TITLE_CHARS: Final = 20  # characters, however narrow the terminal is
_NARROWEST: Final = 20  # characters of a wrapped line
# Columns before a sentence of the query, and of a result.
_QUERY_INDENT: Final = 7
_SAID: Final = 9


class Warned(Protocol):
    """A warning about an answer."""

    @property
    def message(self) -> str:
        """The text of the warning."""


class Hanging:
    """A text whose lines, if they are too long for the terminal, continue below their column ``indent``."""

    def __init__(self, text: Text, indent: int) -> None:
        self._text, self._indent = text, indent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines, wrapped."""
        indent, width = self._indent, max(_NARROWEST, options.max_width - self._indent)
        for line in self._text.split("\n"):
            first, *rest = line[indent:].wrap(console, width) or [Text()]
            yield line[:indent] + first
            yield from (Text(" " * indent) + each for each in rest)


def search_answer(answer: SearchAnswer) -> Group:
    """Render a ranked list: the query with its chosen sentences marked, then papers with matches marked.

    ▷ marks the query sentences to be unlike, and ≠ the sentences of a result that are nearest to them.
    """
    shown: list[Text | Hanging] = [Hanging(_query(answer.query), _QUERY_INDENT), Text()]
    return _ranked(shown, answer)


def recommendations_answer(answer: RecommendationsAnswer, lost: Sequence[str]) -> Group:
    """Render recommendations; sentence 0 of seed 2 is ``2.0``, sentence 3 of negative 0 is ``not 0.3``.

    ``lost`` are lines about seeds that were left out.
    """
    shown: list[Text | Hanging] = []
    for seed in answer.seeds:
        text = Text(
            f"{'Unlike negative' if seed.negative else 'Similar to seed'} {seed.seed}: ", style="bold"
        )
        text.append(seed.title or seed.id or "a text", style="bold red" if seed.negative else "bold blue")
        shown.append(text)
    return _ranked([*shown, *_left_out(lost), Text()], answer)


def _ranked(shown: list[Text | Hanging], answer: SearchAnswer | RecommendationsAnswer) -> Group:
    results: Sequence[Result | Recommendation] = answer.results
    for rank, result in enumerate(results, start=1):
        shown += [heading(rank, result), Hanging(_explained(result), _SAID), Text()]
    shown += _remarks(answer)
    n_shown = len(answer.results)
    these = (
        counted(n_shown, "paper")
        if answer.total is None
        else f"{n_shown} of {counted(answer.total, 'paper')}"
    )
    took = f"{answer.took_ms:,.0f} ms, generation {answer.generation}"
    return Group(*shown, Text(f"{these} in {took}"))


def titles(answer: SearchAnswer | RecommendationsAnswer) -> Group:
    """Render each result as a line: its title, year and id."""
    results: Sequence[Result | Recommendation] = answer.results
    return Group(*(title_line(result.paper, start=f"{rank:>2}. ") for rank, result in enumerate(results, 1)))


def answer_notes(answer: SearchAnswer | RecommendationsAnswer, lost: Sequence[str]) -> list[Text]:
    """Return what a file of results does not say: seeds left out, why there are no results, and warnings."""
    return [*_left_out(lost), *_remarks(answer)]


def _left_out(lost: Sequence[str]) -> list[Text]:
    return [Text(f"Left out: {line}", style="yellow") for line in lost]


def _remarks(answer: SearchAnswer | RecommendationsAnswer) -> list[Text]:
    detail = [Text(answer.detail, style="yellow")] if answer.detail else []
    return [*detail, *notes(answer.warnings)]


def title_line(paper: Paper | PaperSummary, *, start: str = "") -> Text:
    """Render a paper on one line: its title, cut if the terminal is too narrow, year and id."""
    about = f"  {' · '.join(part for part in (str(paper.year or ''), paper.id) if part)}"
    text = Text(start, style="bold")
    text.append(_cut(paper.title, beside=len(start) + len(about)), style="bold blue")
    return text.append(about, style="dim")


def notes(warnings: Sequence[Warned]) -> list[Text]:
    """Render each warning of an answer as a line."""
    return [Text(f"Note: {warning.message}", style="yellow") for warning in warnings]


def _cut(title: str, *, beside: int) -> str:
    """Cut a title with an ellipsis if it does not fit into a line with ``beside`` other columns."""
    room = max(_MIN_TITLE_CHARS, stdout.width - beside)
    return title if cell_len(title) <= room else f"{set_cell_size(title, room - 1).rstrip()}…"


def _query(query: Query) -> Text:
    text = Text("Similar to: ", style="bold")
    first = query.sentences[0].text[:80] if query.sentences else ""
    text.append(query.title or first, style="bold blue")
    for number, sentence in enumerate(query.sentences):
        chosen, away = number in query.selected, number in query.unlike
        mark, style = ("▶", "bold") if chosen else ("▷", "red") if away else (" ", "dim")
        text.append(f"\n  {mark} {number:>2} ", style=style)
        text.append(sentence.text, style="" if chosen else style)
        text.append(f"  {sentence.facet}" if sentence.facet else "", style="dim italic")
    return text


def heading(rank: int, result: Result | Recommendation | NewPaper) -> Hanging:
    """Render rank, title, score and strength of a result on a line; id, authors, venue, year on the next."""
    beside = Text(f"  {result.score:.4f}", style="cyan")
    if result.strength:
        beside.append(f"  {result.strength.label} match", style=_STRENGTHS[result.strength.label])
    if away := [a for a in result.alignments if a.weight < 0]:
        distance = sum(a.weight * a.distance for a in away) / sum(a.weight for a in away)
        beside.append(f"  (distance {distance:.4f} from what results should be unlike)", style="red")
    text = Text(f"{rank:>2}. ", style="bold")
    text.append(_cut(result.paper.title, beside=len(text) + len(beside)), style="bold blue")
    text.append_text(beside)
    text.append("\n    ")
    return Hanging(text.append(_byline(result.paper), style="dim"), 4)


def _byline(paper: Paper) -> str:
    parts = (paper.id, authors_of(paper), paper.venue, str(paper.year or ""))
    return " · ".join(part for part in parts if part)


def authors_of(paper: Paper | PaperSummary) -> str:
    """Return the first three authors, with "et al." if there are more."""
    return ", ".join(paper.authors[:3]) + (" et al." if len(paper.authors) > 3 else "")


def _explained(result: Result | Recommendation) -> Text:
    """Render the abstract with its matches marked, then the shared words that count most."""
    text = _abstract(result)
    for words, terms, style in (
        ("Words", [each for each in result.words.terms if each.share > 0], "green"),
        ("Words to avoid", [each for each in result.words.terms if each.share < 0], "red"),
    ):
        if terms:
            named = ", ".join(f"{each.term} {abs(each.share):.0%}" for each in terms[:_MAX_WORDS])
            text.append(f"\n{' ' * _SAID}{words}: {named}", style=style)
    return text


def _abstract(result: Result | Recommendation) -> Text:
    shares = {each.sentence: each.weight for each in result.highlights if each.marked}
    text = Text()
    for number in range(len(result.paper.sentences)):
        marked = number in shares
        partners = _partners(result, number) if marked else ""
        text.append(f"{shares[number]:>8.0%} " if marked else " " * _SAID, style="bold green")
        text.append(result.paper.sentence(number), style="bold" if marked else "dim")
        text.append(f"  ← {partners}" if partners else "", style="green")
        unwanted = _unwanted(result, number)
        text.append(f"  ≠ {unwanted}\n" if unwanted else "\n", style="red")
    text.rstrip()
    return text


def _partners(result: Result | Recommendation, sentence: int) -> str:
    """Return the numbers of the query sentences with most of a result sentence's share."""
    return _heaviest([(a, a.weight) for a in result.alignments if a.sentence == sentence and a.weight > 0])


def _unwanted(result: Result | Recommendation, sentence: int) -> str:
    """Return the sentences to be unlike that a result sentence is near, if it has more than an even share."""
    away = [a for a in result.alignments if a.weight < 0]
    here = [(a, -a.weight) for a in away if a.sentence == sentence]
    share = sum(weight for _, weight in here) / -sum(a.weight for a in away) if away else 0.0
    return _heaviest(here) if share * len(result.paper.sentences) > 1 else ""


def _heaviest(weighed: Sequence[tuple[Alignment, float]]) -> str:
    least = max((weight for _, weight in weighed), default=0.0) / 2
    return ", ".join(_number(each) for each, weight in weighed if weight >= least)


def _number(alignment: Alignment) -> str:
    """Return the number of a query sentence, for recommendations after the number of its seed."""
    if not isinstance(alignment, SeedAlignment):
        return str(alignment.query_sentence)
    return f"{'not ' if alignment.negative else ''}{alignment.seed}.{alignment.query_sentence}"
