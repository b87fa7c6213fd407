"""``akin recommend``: papers similar to several papers or a library."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, cast

import typer

from akin.cli.consoles import stderr
from akin.cli.options import (
    AsJson,
    Authors,
    Device,
    Fields,
    HasFacets,
    Key,
    Limit,
    MaybeData,
    Output,
    OutputFormat,
    Save,
    Specificity,
    Url,
    Venues,
    Words,
    YearFrom,
    YearTo,
    filters_of,
    form_of,
)
from akin.cli.output import print_answer
from akin.cli.search.query import expect_name, given, is_file, lasting, open_client, saving, to_save
from akin.cli.search.unresolved import expect_no_lost_file, left_out
from akin.client.library import MAX_SEEDS, LibrarySeeds, looked_up, read_seeds
from akin.client.params import RecommendationsRequest
from akin.client.responses.ranked import RecommendationsAnswer
from models.errors import InputError
from models.types import Facet

if TYPE_CHECKING:
    from akin.client.client import Client
    from akin.local.collection import Collection


def recommend(
    papers: Annotated[
        list[str] | None, typer.Argument(help="Ids, DOIs, addresses or titles of papers to start from.")
    ] = None,
    seeds: Annotated[
        list[Path] | None,
        typer.Option(
            "--like",
            help="A library (.bib, .ris, .nbib ...) or corpus file to start from; may be repeated.",
        ),
    ] = None,
    unlike: Annotated[
        list[str] | None,
        typer.Option(help="A paper or library file that results should be unlike; may be repeated."),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            help="A claim to start from; with --facet, it is compared only with sentences of that facet. "
            "May be repeated."
        ),
    ] = None,
    data: MaybeData = None,
    url: Url = "",
    key: Key = None,
    facet: Annotated[
        list[Facet] | None, typer.Option(help="Count the seeds' sentences of this facet; may be repeated.")
    ] = None,
    strategy: Annotated[
        Literal["any", "all"],
        typer.Option(help="Similar to any of the seeds, or to what all of them share."),
    ] = "any",
    negative_weight: Annotated[
        float | None,
        typer.Option(min=0.01, max=1, help="Weight of the --unlike papers.", show_default="0.4"),
    ] = None,
    words: Words = None,
    specificity: Specificity = None,
    limit: Limit = 10,
    year_from: YearFrom = None,
    year_to: YearTo = None,
    author: Authors = None,
    venue: Venues = None,
    field: Fields = None,
    has_facet: HasFacets = None,
    device: Device = "auto",
    output: OutputFormat = Output.TEXT,
    as_json: AsJson = False,
    save: Save = "",
) -> None:
    """Find papers similar to several papers or a library file, and unlike others.

    Library entries that are in the collection are looked up there; for others, their abstracts are used.
    Results never include the seeds. Searches the collection in --data, or the running service at --url.
    """
    form = form_of(output, as_json)
    for each in papers or ():
        if not is_file(each):
            expect_no_lost_file(each)
    if negative_weight is not None and not unlike:
        raise InputError("--negative-weight is the weight of --unlike; give --unlike PAPER as well.")
    with open_client(url, data, key=key, device=device) as collection:
        n_named = len(papers or ()) + len(text or ()) + bool(seeds)
        negatives = _all(*_parted(unlike), collection, most=MAX_SEEDS - n_named)
        left = MAX_SEEDS - len(negatives)
        request = cast(
            RecommendationsRequest,
            {
                "seeds": _all(papers, seeds, collection, texts=text, facet=facet, most=left),
                **given(
                    negatives=negatives,
                    filters=filters_of(year_from, year_to, author, venue, field, has_facet),
                    strategy=strategy,
                    negative_weight=negative_weight,
                    words=words,
                    specificity=specificity,
                    limit=limit,
                ),
            },
        )
        if not request["seeds"]:
            library = "another LIBRARY, as no entry of this one can be used," if seeds else "LIBRARY"
            raise InputError(f"Nothing to start from: name papers, or give --like {library} or --text WORDS.")
        expect_name(collection, save, data=data, recommendations=to_save(request))
        answer = collection.recommend(**request)
        lost = left_out(answer.unresolved, request)
        if answer.reason == "no_seed_resolved":
            _expect_seeds(form, answer, lost)
        with saving(collection, save, recommendations=to_save(request)):
            print_answer(form, lasting(answer, data), lost=lost)


def _expect_seeds(form: Output, answer: RecommendationsAnswer, lost: list[str]) -> NoReturn:
    """Print which seeds were left out, and raise InputError because none can be used."""
    if form is Output.JSON:
        print_answer(form, answer)
    for line in lost:
        stderr.print(f"Left out: {line}", style="yellow", soft_wrap=True)
    raise InputError("None of the papers to start from can be used.")


def _parted(given: list[str] | None) -> tuple[list[str], list[Path]]:
    """Split ``given`` into names of papers and files; raises InputError for a file that does not exist."""
    files = [Path(each) for each in given or () if is_file(each)]
    for each in given or ():
        if Path(each) not in files:
            expect_no_lost_file(each)
    return [each for each in given or () if Path(each) not in files], files


def _all(
    names: list[str] | None,
    files: list[Path] | None,
    collection: "Client | Collection",
    *,
    texts: list[str] | None = None,
    facet: list[Facet] | None = None,
    most: int,
) -> list[dict[str, Any]]:
    """Return named papers, texts, and the papers of files as seeds, each with the facets that count.

    Entries of files only count as long as there are at most ``most`` seeds.
    """
    found: list[dict[str, Any]] = [{"paper_id": name} for name in names or ()]
    found += [{"text": text} for text in texts or ()]
    if files:
        library = looked_up(read_seeds(files, most=max(0, most - len(found))), collection.papers)
        _tell(library, ", ".join(map(str, files)))
        found += library.seeds
    return [{**seed, **given(facet=[each.value for each in facet or ()])} for seed in found]


def _tell(library: LibrarySeeds, files: str) -> None:
    """Print how many entries of a library were found or used by their text, and which were left out."""
    known = f"{library.n_known:,} found in the collection, {library.n_pasted:,} used by their text."
    for line in (f"{files}: {known}", *library.losses):
        stderr.print(line, soft_wrap=True)
