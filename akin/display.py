"""What the command line shows a person: search results with matched sentences marked, summaries, tables."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from indexer.build import BuildReport
from indexer.manifest import Manifest
from indexer.parts import Refusals
from models.errors import SnapshotError
from models.types import Paper, RankedPaper
from service.search import SearchAnswer


def refused_rows(refusals: Refusals) -> Group:
    """What was passed over while reading, with the first reasons."""
    lines = []
    if refusals.broken:
        duplicates = f" ({refusals.duplicates:,} for a repeated id)" if refusals.duplicates else ""
        lines.append(Text(f"Skipped {refusals.broken:,} rows{duplicates}:", style="yellow"))
        lines += [Text(f"  {example}") for example in refusals.examples]
        if refusals.broken > len(refusals.examples):
            lines.append(Text(f"  ... and {refusals.broken - len(refusals.examples):,} more"))
    if refusals.without_abstract:
        lines.append(Text(f"{refusals.without_abstract:,} rows have no abstract and were passed over."))
    return Group(*lines)


def build_summary(report: BuildReport) -> Group:
    """What was indexed, what was left out and why."""
    manifest, reading = report.manifest, report.reading
    backends = ", ".join(dict.fromkeys(segment.backend for segment in manifest.segments))
    lines = [
        Text.assemble(
            "Indexed ",
            (f"{reading.n_papers:,} papers", "bold"),
            f" in {report.took_s:,.1f} s; generation {manifest.generation} holds {manifest.n_papers:,}, with "
            f"{manifest.n_rows:,} {manifest.encoder.unit} vectors (encoder {manifest.encoder.name}, "
            f"backend {backends}).",
        )
    ]
    if report.replaced:
        lines.append(Text(f"{report.replaced:,} of them replace papers with their ids."))
    if reading.unchanged:
        lines.append(Text(f"{reading.unchanged:,} papers were there already, word for word."))
    if report.reused_papers:
        lines.append(Text(f"{report.reused_papers:,} papers were encoded before an interruption and reused."))
    if report.dropped_sentences:
        lines.append(
            Text(f"{report.dropped_sentences:,} sentences past the encoder's limit are stored, not searched.")
        )
    languages = report.reading.languages
    if languages:
        named = ", ".join(f"{code} {count:,}" for code, count in languages.items())
        lines.append(
            Text(
                f"{sum(languages.values()):,} abstracts do not look English ({named}); "
                f"expect poorer matches for them from an English encoder.",
                style="yellow",
            )
        )
    return Group(*lines)


def generation_table(found: Sequence[tuple[str, Manifest | SnapshotError]], served: str) -> Table:
    """Generations, oldest first, each with its manifest or what is wrong; the served one is marked."""
    table = Table("", "generation", "created (UTC)", "papers", "vectors", "encoder", "segments")
    for name, manifest in found:
        mark, style = ("→", "bold") if name == served else ("", "")
        if isinstance(manifest, SnapshotError):
            table.add_row(mark, name, "cannot be read", style="red")
            continue
        table.add_row(
            mark,
            name,
            manifest.created,
            f"{manifest.n_papers:,}",
            f"{manifest.n_rows:,}",
            manifest.encoder.name,
            ", ".join(
                f"{backend} ×{n}" if n > 1 else backend
                for backend, n in Counter(segment.backend for segment in manifest.segments).items()
            ),
            style=style,
        )
    return table


def search_answer(answer: SearchAnswer) -> Group:
    """A ranked list a person can read: the query's chosen sentences, then each paper, its matches marked.

    With contrast, ▷ marks the query sentences to be unlike, and ≠ what in a result is nearest to them.
    """
    shown: list[Text | Padding] = [_query(answer), Text()]
    for rank, result in enumerate(answer.results, start=1):
        shown += [_heading(rank, result), Padding(_abstract(result), (0, 0, 1, 4))]
    if answer.detail:
        shown.append(Text(answer.detail, style="yellow"))
    shown += notes(answer.warnings)
    shown.append(
        Text(f"{len(answer.results)} results in {answer.took_ms:,.0f} ms, generation {answer.generation}")
    )
    return Group(*shown)


def notes(warnings: Sequence[str]) -> list[Text]:
    """What an answer warns of, a line each."""
    parted = [warning.partition(":") for warning in warnings]
    return [Text(f"Note: {kind.replace('_', ' ')} ({detail}).", style="yellow") for kind, _, detail in parted]


def _query(answer: SearchAnswer) -> Text:
    text = Text("Akin to: ", style="bold")
    text.append(answer.query.title or answer.query.abstract[:80], style="bold blue")
    for number, sentence in enumerate(answer.query.sentences):
        chosen, away = number in answer.selected, number in answer.unlike
        mark, style = ("▶", "bold") if chosen else ("▷", "red") if away else (" ", "dim")
        text.append(f"\n  {mark} {number:>2} ", style=style)
        text.append(sentence.text, style="" if chosen else style)
        text.append(f"  {sentence.facet}" if sentence.facet else "", style="dim italic")
    return text


def _heading(rank: int, result: RankedPaper) -> Text:
    text = Text(f"{rank:>2}. ", style="bold")
    text.append(result.paper.title, style="bold blue")
    text.append(f"  {result.score:.4f}", style="cyan")
    if away := [a for a in result.alignments if a.weight < 0]:
        distance = sum(a.weight * a.distance for a in away) / sum(a.weight for a in away)
        text.append(f"  (at {distance:.4f} from what to be unlike)", style="red")
    text.append("\n    ")
    text.append(_byline(result.paper), style="dim")
    return text


def _byline(paper: Paper) -> str:
    authors = ", ".join(paper.authors[:3]) + (" et al." if len(paper.authors) > 3 else "")
    return " · ".join(part for part in (paper.id, authors, paper.venue, str(paper.year or "")) if part)


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
