"""``akin analyze``: the facet of each sentence of an abstract."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from akin.cli.consoles import stdout
from akin.cli.options import Device
from akin.cli.output import print_data
from akin.cli.render import notes
from akin.cli.search.query import read_query
from akin.local.collection import seed_of
from models.annotator import load_annotator
from models.counts import counted
from models.errors import InputError
from service.api.schemas.search.sentences import AnalyzedSentenceOut, AnalyzeOut
from service.resolve.analysis import analyze as analyze_paper


def analyze(
    source: Annotated[
        str,
        typer.Argument(help="A file: title, empty line, abstract; or one JSON paper; `-`: standard input."),
    ],
    encoder: Annotated[
        str, typer.Option(help="A checkpoint's name, `hashing`, or a model folder.")
    ] = "minilm",
    tagger: Annotated[
        Path | None,
        typer.Option(help="Facet weights to use instead of the encoder's own.", exists=True, dir_okay=False),
    ] = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the JSON response of /v1/analyze.")] = False,
) -> None:
    """Show the facet of each sentence of an abstract. No index is needed."""
    if not source.strip():
        raise InputError("The name of the file is empty: name one, or give - for standard input.")
    paper = seed_of(read_query(paper_id="", sources=(source,))).paper
    if paper is None:
        raise InputError("Name a file with a title and an abstract, or - for standard input.")
    body = AnalyzeOut.of(analyze_paper(load_annotator(encoder, device=device, tagger=tagger), paper))
    if as_json:
        print_data(f"{body.model_dump_json()}\n")
    else:
        stdout.print(analyzed_sentences(body))


def analyzed_sentences(analysis: AnalyzeOut) -> Group:
    """Render each sentence with its facet and the facet's probability."""
    table = Table("", "facet", "", "sentence", box=None, padding=(0, 2, 0, 0))
    for number, sentence in enumerate(analysis.sentences):
        table.add_row(
            str(number), Text(sentence.facet or "", style="green"), _share(sentence), Text(sentence.text)
        )
    shown: list[Text | Table] = [table]
    if analysis.dropped_sentences:
        shown.append(
            Text(
                f"The encoder did not read the last {counted(analysis.dropped_sentences, 'sentence')}.",
                style="yellow",
            )
        )
    return Group(*shown, *notes(analysis.warnings), Text(f"Facets by the tagger {analysis.tagger}."))


def _share(sentence: AnalyzedSentenceOut) -> str:
    return "" if sentence.facet is None else f"{sentence.probabilities[sentence.facet]:.0%}"
