"""``akin compare``: two papers side by side. ``akin match``: which reviewers are near which submissions."""

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from akin.asking import read_query
from akin.display import notes
from akin.indexing import Data, Device
from akin.serving import settings_of
from service.api.schemas.compare import CompareOut
from service.collection.generations import open_engine
from service.match.side_by_side import Side, SideBySide, side_by_side
from service.search.query import Seed

_MOST_FACETS = 6  # pairs of facets that are shown

_out = Console(highlight=False)


def compare(
    a: Annotated[str, typer.Argument(help="The name of an indexed paper, a file, or `-`.")],
    b: Annotated[str, typer.Argument(help="Another.")],
    data: Data,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the body of /v1/compare.")] = False,
) -> None:
    """Two papers side by side: what of each is like the other, by facet and words, and what only one has.

    A file holds a title, an empty line and an abstract, or one JSON paper.
    """
    engine = open_engine(settings_of(data=data, device=device))
    compared = side_by_side(engine, _paper(a), _paper(b))
    if as_json:
        typer.echo(CompareOut.of(compared).model_dump_json())
    else:
        _out.print(_shown(compared))


def _paper(given: str) -> Seed:
    is_file = given == "-" or Path(given).is_file()
    return read_query(paper_id="" if is_file else given, sources=(given,) if is_file else ())


def _shown(compared: SideBySide) -> Group:
    affinity = Text(f"Affinity {compared.a.affinity:.3f}", style="bold")
    affinity.append(f" from A to B, {compared.b.affinity:.3f} back", style="")
    affinity.append(" (1: the same text; 0: no nearer than papers usually are)", style="dim")
    shown: list[Text | Table] = [affinity, Text()]
    for name, other, side, beside in (
        ("A", "B", compared.a, compared.b),
        ("B", "A", compared.b, compared.a),
    ):
        shown += [_side(name, other, side, beside), Text()]
    facets = Table("A", "B", "share", "distance", box=SIMPLE_HEAD, title="The match by facet")
    for share in compared.facets[:_MOST_FACETS]:
        facets.add_row(share.a or "none", share.b or "none", f"{share.weight:.0%}", f"{share.distance:.3f}")
    shown.append(facets)
    return Group(*shown, *notes(compared.warnings))


def _side(name: str, other: str, side: Side, beside: Side) -> Text:
    """A paper's sentences, each with the nearest of the other, what only it has marked, and the words."""
    text = Text(f"{name}: ", style="bold")
    text.append(side.paper.title or side.paper.abstract[:80], style="bold blue")
    for number, (sentence, near) in enumerate(zip(side.paper.sentences, side.sentences, strict=False)):
        text.append(f"\n  {number:>2} ", style="bold")
        text.append(sentence.text, style="yellow" if near.alone else "")
        text.append(f"  {sentence.facet}" if sentence.facet else "", style="dim italic")
        told = f"only in {name}" if near.alone else f"{other} {near.nearest} at {near.distance:.3f}"
        text.append(f"  → {told}", style="yellow" if near.alone else "green")
    for label, terms in (
        ("shared words", [each.term for each in beside.other.words.terms]),
        (f"words of {name} alone", side.terms),
    ):
        if terms:
            text.append(f"\n     {label}: {', '.join(terms)}", style="dim")
    return text
