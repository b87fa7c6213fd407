"""Options that several commands share."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from models.encoders.device_names import checked_device
from models.errors import InputError
from models.types import Facet, Precision


class Output(StrEnum):
    """The formats in which an answer is printed."""

    TEXT = "text"
    TITLES = "titles"
    JSON = "json"
    CSV = "csv"
    BIBTEX = "bibtex"
    RIS = "ris"
    MARKDOWN = "markdown"
    LATEX = "latex"
    TSV = "tsv"


def device_name(given: str | None) -> str | None:
    """Return the name of a device unchanged; raises BadParameter if it is not one."""
    try:
        return None if given is None else checked_device(given)
    except InputError as error:
        raise typer.BadParameter(str(error)) from error


def chosen_precision(given: Precision | None, device: str) -> Precision | None:
    """Return ``given`` with ``auto`` resolved for ``device``: a collection stores the resolved format."""
    if given is not Precision.AUTO:
        return given
    from models.encoders.devices import resolve_device, resolve_precision

    return resolve_precision(given, resolve_device(device))


def _unless_named_otherwise(context: typer.Context, folder: Path | None) -> Path | None:
    """Return ``None`` for a folder from AKIN_DATA if a service or a folder is given as an argument."""
    source = context.get_parameter_source("data")
    from_environment = source is not None and source.name == "ENVIRONMENT"
    named = context.params.get("url") or context.params.get("folder")
    return None if from_environment and named else folder


Data = Annotated[Path, typer.Option(help="The data folder.", file_okay=False, envvar="AKIN_DATA")]
# AKIN_DATA counts only if nothing else is given.
MaybeData = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="The data folder.",
        file_okay=False,
        envvar="AKIN_DATA",
        callback=_unless_named_otherwise,
    ),
]
# For commands with no other positional argument; use it with ``data_folder``.
Folder = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATA", help="The data folder, here or as --data.", file_okay=False, show_default=False
    ),
]
Url = Annotated[str, typer.Option(help="Or the address of a running service, http://...")]
Key = Annotated[str | None, typer.Option(envvar="AKIN_KEY", help="An API key for --url.")]
OutputFormat = Annotated[
    Output,
    typer.Option(
        help="Text for people, titles alone, a format for programs, or a table of problem, method and result "
        "(markdown, latex, tsv)."
    ),
]
CorpusFormat = Annotated[str, typer.Option("--format", help="Corpus format; auto detects it.")]
EncoderName = Annotated[str, typer.Option(help="A checkpoint's name, `hashing`, or a model folder.")]


def form_of(output: Output, as_json: bool) -> Output:
    """Return the format to print; raises InputError for --json with another format."""
    if as_json and output not in {Output.TEXT, Output.JSON}:
        raise InputError(
            f"--json is short for --output json and cannot be given with --output {output.value}; give one."
        )
    return Output.JSON if as_json else output


Device = Annotated[
    str,
    typer.Option(
        help="auto (CUDA if there is one, else CPU), cpu, cuda or cuda:N.",
        envvar="AKIN_DEVICE",
        callback=device_name,
    ),
]
NumberFormat = Annotated[
    Precision | None,
    typer.Option(
        "--precision",
        help="Number format of the encoder (the collection's, or float32); auto: bfloat16 where the device "
        "multiplies it natively; int8: fastest on CPUs, rougher; it needs the extra int8.",
    ),
]
TaggerFile = Annotated[
    Path | None, typer.Option(help="Weights of your own facet tagger (akin train facets).", dir_okay=False)
]
CatalogUrl = Annotated[
    str,
    typer.Option(
        "--catalog",
        help="Address of the catalog, postgresql://...; by default it is in --data.",
        envvar="AKIN_CATALOG_URL",
    ),
]
Keep = Annotated[
    int, typer.Option(min=1, help="How many generations to keep, with the one served.", envvar="AKIN_KEEP")
]
FunctionsFile = Annotated[
    Path | None, typer.Option(help="Function weights of your own (akin train functions).", dir_okay=False)
]
# The filters of all commands that search.
YearFrom = Annotated[int | None, typer.Option(min=1000, max=2100, help="Earliest year.")]
YearTo = Annotated[int | None, typer.Option(min=1000, max=2100, help="Latest year.")]
Authors = Annotated[list[str] | None, typer.Option(help="Only by this author; may be repeated.")]
Venues = Annotated[list[str] | None, typer.Option(help="Only this venue; may be repeated.")]
Fields = Annotated[list[str] | None, typer.Option(help="Only this field; may be repeated.")]
Words = Annotated[float | None, typer.Option(min=0, help="Weight of shared words; 0: ignore them.")]
Specificity = Annotated[
    float | None, typer.Option(min=0, help="Extra weight of specific sentences; 0: all count the same.")
]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="How many papers.")]
AsJson = Annotated[bool, typer.Option("--json", help="Short for --output json.")]
Save = Annotated[
    str, typer.Option(help="Keep the query under this name; `akin watch` shows its new matches.")
]
HasFacets = Annotated[
    list[Facet] | None, typer.Option(help="Only papers with a sentence of this facet; may be repeated.")
]


def data_folder(folder: Path | None, data: Path | None) -> Path:
    """Return the data folder, an argument or --data; raises InputError unless it is given exactly once."""
    given = [each for each in (folder, data) if each is not None]
    if len(given) != 1:
        raise InputError("Give the data folder once: either as DATA, or as --data DATA.")
    return given[0]


def catalog_place(data: Path, url: str) -> str | Path:
    """Return the catalog that an option names, or that of a data folder."""
    from indexer.files.data_folder import DataFolder  # an installed client alone lacks what it needs

    return url or DataFolder(data).catalog


def filters_of(
    year_from: int | None,
    year_to: int | None,
    authors: Sequence[str] | None,
    venues: Sequence[str] | None,
    fields: Sequence[str] | None,
    has_facets: Sequence[Facet] | None,
) -> dict[str, Any]:
    """Return the filters that are set, with the names of a request; raises InputError for reversed years."""
    if year_from is not None and year_to is not None and year_from > year_to:
        raise InputError(
            f"--year-from {year_from} is later than --year-to {year_to}: the range is the wrong way round."
        )
    named = {
        "year_from": year_from,
        "year_to": year_to,
        "authors": authors,
        "venues": venues,
        "fields": fields,
        "has_facets": [facet.value for facet in has_facets or ()],
    }
    return {name: value for name, value in named.items() if value}


def refuse_options(context: typer.Context, names: Sequence[str], message: str) -> None:
    """Raise InputError if any of the options ``names`` is given: ``message``, with them for ``{given}``."""
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    if given:
        raise InputError(message.format(given=", ".join(f"--{name.replace('_', '-')}" for name in given)))
