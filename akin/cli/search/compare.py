"""``akin compare``: two papers side by side."""

from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from akin.cli.consoles import stdout
from akin.cli.options import Device, Key, MaybeData, Url
from akin.cli.output import as_json as json_line
from akin.cli.output import print_data
from akin.cli.render import Hanging, notes
from akin.cli.search.query import is_file, open_client, read_query
from akin.cli.search.unresolved import expect_no_lost_file, naming_lost
from akin.client.responses.matches import ComparedPapers, Side
from models.errors import InputError

_MAX_FACETS = 6  # the most pairs of facets shown


def compare(
    a: Annotated[str, typer.Argument(help="The name of an indexed paper, a file, or `-`.")],
    b: Annotated[str, typer.Argument(help="Another.")],
    data: MaybeData = None,
    url: Url = "",
    key: Key = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the JSON response of /v1/compare.")] = False,
) -> None:
    """Compare two papers side by side: shared sentences, facets and words, and what differs.

    A file contains a title, an empty line and an abstract, or one JSON paper. Searches the collection in
    --data, or sends a request to the running service at --url, which is faster.
    """
    if a == b == "-":
        raise InputError("Only one of the two papers can be `-`: standard input is read once.")
    first, second = _paper(a), _paper(b)
    with open_client(url, data, key=key, device=device) as collection, naming_lost(collection, first, second):
        compared = collection.compare(first, second)
    if as_json:
        print_data(json_line(compared))
    else:
        stdout.print(_shown(compared))


def _paper(given: str) -> Any:
    if not given.strip():
        raise InputError("A paper to compare is empty: give its id, DOI or title, a file, or `-`.")
    in_file = given == "-" or is_file(given)
    if not in_file:
        expect_no_lost_file(given)
    return read_query(paper_id="" if in_file else given, sources=(given,) if in_file else ())


def _shown(compared: ComparedPapers) -> Group:
    affinity = Text(f"Affinity {compared.a.affinity:.3f}", style="bold")
    affinity.append(f" from A to B, {compared.b.affinity:.3f} from B to A", style="")
    affinity.append(" (1: the same text; 0: no nearer than two papers usually are)", style="dim")
    shown: list[Text | Hanging | Table] = [affinity, Text()]
    for name, other, side, beside in (
        ("A", "B", compared.a, compared.b),
        ("B", "A", compared.b, compared.a),
    ):
        shown += [_side(name, other, side, beside), Text()]
    facets = Table("A", "B", "share", "distance", box=SIMPLE_HEAD, title="The match by facet")
    for share in compared.facets[:_MAX_FACETS]:
        facets.add_row(share.a or "none", share.b or "none", f"{share.weight:.0%}", f"{share.distance:.3f}")
    shown.append(facets)
    return Group(*shown, *notes(compared.warnings))


def _side(name: str, other: str, side: Side, beside: Side) -> Hanging:
    """Render a paper's sentences with the other's nearest ones, those without a match marked, and words."""
    text = Text(f"{name}: ", style="bold")
    text.append(side.title or (side.sentences[0].text[:80] if side.sentences else ""), style="bold blue")
    for number, sentence in enumerate(side.sentences):
        if sentence.distance is None:
            break  # the encoder did not read this sentence and those after it
        text.append(f"\n  {number:>2} ", style="bold")
        text.append(sentence.text, style="yellow" if sentence.alone else "")
        text.append(f"  {sentence.facet}" if sentence.facet else "", style="dim italic")
        relation = (
            f"only in {name}" if sentence.alone else f"{other} {sentence.nearest} at {sentence.distance:.3f}"
        )
        text.append(f"  → {relation}", style="yellow" if sentence.alone else "green")
    for label, terms in (
        ("shared words", [each.term for each in beside.words.terms]),
        (f"words only in {name}", side.only_words),
    ):
        if terms:
            text.append(f"\n     {label}: {', '.join(terms)}", style="dim")
    return Hanging(text, 5)
