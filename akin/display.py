"""What the command line shows a person of an answer: results with matched sentences marked."""

from collections.abc import Sequence

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from models.types import Paper, RankedPaper, StrengthLabel
from service.answer_warnings import AnswerWarning
from service.api.schemas.base import WarningOut
from service.search.query import SearchAnswer

_MOST_WORDS = 6  # of each side
_STRENGTHS = {StrengthLabel.STRONG: "green", StrengthLabel.FAIR: "yellow", StrengthLabel.WEAK: "red"}


def search_answer(answer: SearchAnswer) -> Group:
    """A ranked list a person can read: the query's chosen sentences, then each paper, its matches marked.

    With contrast, ▷ marks the query sentences to be unlike, and ≠ what in a result is nearest to them.
    """
    shown: list[Text | Padding] = [_query(answer), Text()]
    for rank, result in enumerate(answer.results, start=1):
        shown += [_heading(rank, result), Padding(_explained(result), (0, 0, 1, 4))]
    if answer.detail:
        shown.append(Text(answer.detail, style="yellow"))
    shown += notes(answer.warnings)
    of_all = "" if answer.total is None else f" of {answer.total:,}"
    took = f"{answer.took_ms:,.0f} ms, generation {answer.generation}"
    return Group(*shown, Text(f"{len(answer.results)}{of_all} papers in {took}"))


def notes(warnings: Sequence[AnswerWarning | WarningOut]) -> list[Text]:
    """What an answer warns of, a line each."""
    return [Text(f"Note: {warning.message}", style="yellow") for warning in warnings]


def _query(answer: SearchAnswer) -> Text:
    text = Text("Akin to: ", style="bold")
    (seed,) = answer.seeds
    text.append(seed.paper.title or seed.paper.abstract[:80], style="bold blue")
    for number, sentence in enumerate(seed.paper.sentences):
        chosen, away = number in seed.selected, number in seed.unlike
        mark, style = ("▶", "bold") if chosen else ("▷", "red") if away else (" ", "dim")
        text.append(f"\n  {mark} {number:>2} ", style=style)
        text.append(sentence.text, style="" if chosen else style)
        text.append(f"  {sentence.facet}" if sentence.facet else "", style="dim italic")
    return text


def _heading(rank: int, result: RankedPaper) -> Text:
    text = Text(f"{rank:>2}. ", style="bold")
    text.append(result.paper.title, style="bold blue")
    text.append(f"  {result.score:.4f}", style="cyan")
    if result.strength:
        text.append(f"  {result.strength.label} match", style=_STRENGTHS[result.strength.label])
    if away := [a for a in result.alignments if a.weight < 0]:
        distance = sum(a.weight * a.distance for a in away) / sum(a.weight for a in away)
        text.append(f"  (at {distance:.4f} from what to be unlike)", style="red")
    text.append("\n    ")
    text.append(_byline(result.paper), style="dim")
    return text


def _byline(paper: Paper) -> str:
    authors = ", ".join(paper.authors[:3]) + (" et al." if len(paper.authors) > 3 else "")
    return " · ".join(part for part in (paper.id, authors, paper.venue, str(paper.year or "")) if part)


def _explained(result: RankedPaper) -> Text:
    """The abstract with its matches marked, then the shared words that count most."""
    text = _abstract(result)
    for words, terms, style in (
        ("Words", [each for each in result.words.terms if each.share > 0], "green"),
        ("Words to be unlike", [each for each in result.words.terms if each.share < 0], "red"),
    ):
        if terms:
            named = ", ".join(f"{each.term} {abs(each.share):.0%}" for each in terms[:_MOST_WORDS])
            text.append(f"\n     {words}: {named}", style=style)
    return text


def _abstract(result: RankedPaper) -> Text:
    shares = {highlight.sentence: highlight.weight for highlight in result.highlights}
    # More than an even share: a sentence that only went along is context.
    even = 1 / len(result.paper.sentences)
    text = Text()
    for number, sentence in enumerate(result.paper.sentences):
        share = shares.get(number, 0.0)
        marked = share > even
        partners = _partners(result, number) if marked else ""
        text.append(f"{share:>4.0%} " if marked else "     ", style="bold green")
        text.append(sentence.text, style="bold" if marked else "dim")
        text.append(f"  ← {partners}" if marked else "", style="green")
        unwanted = _unwanted(result, number, even)
        text.append(f"  ≠ {unwanted}\n" if unwanted else "\n", style="red")
    text.rstrip()
    return text


def _partners(result: RankedPaper, sentence: int) -> str:
    """The query sentences that carry most of a result sentence's share."""
    return _heaviest([(a.query_sentence, a.weight) for a in result.alignments if a.sentence == sentence])


def _unwanted(result: RankedPaper, sentence: int, even: float) -> str:
    """The sentences to be unlike that a result sentence is near, where it has more than an even share."""
    away = [a for a in result.alignments if a.weight < 0]
    here = [(a.query_sentence, -a.weight) for a in away if a.sentence == sentence]
    share = sum(weight for _, weight in here) / -sum(a.weight for a in away) if away else 0.0
    return _heaviest(here) if share > even else ""


def _heaviest(weighed: Sequence[tuple[int | None, float]]) -> str:
    least = max(weight for _, weight in weighed) / 2
    return ", ".join(str(number) for number, weight in weighed if weight >= least)
