"""Answers in the format that the client accepts, as dependencies of endpoints."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from service.api.errors import RESPONSES
from service.api.exports import BYTE_ORDER_MARK, to_bibtex, to_csv, to_ris
from service.api.formats import LIST_FORMATS, Format, negotiate
from service.api.schemas.base import PaperOut
from service.api.schemas.search.recommendations import RecommendationsOut
from service.api.schemas.search.results import SearchOut

VARIES = {"Vary": "Accept"}  # of every answer that comes in several formats
# The header with the share of the collection that was searched, for formats that cannot hold it.
COVERED = {
    "headers": {
        "X-Akin-Coverage": {
            "description": "The share of the collection's papers that was searched.",
            "schema": {"type": "number", "minimum": 0, "maximum": 1},
        }
    }
}
_FILE_ENDINGS = {
    Format.CSV: "csv",
    Format.BIBTEX: "bib",
    Format.RIS: "ris",
    Format.NDJSON: "ndjson",
    Format.PARQUET: "parquet",
}


def accepted(request: Request, response: Response, offered: tuple[Format, ...]) -> Format:
    """Return the format of ``offered`` to use, and set Vary in the headers; raises AnswerFormatError."""
    response.headers.update(VARIES)
    return negotiate(",".join(request.headers.getlist("Accept")), offered)


async def _list_format(request: Request, response: Response) -> Format:
    return accepted(request, response, LIST_FORMATS)


ListFormatDep = Annotated[Format, Depends(_list_format)]


def documented(*offered: Format) -> dict[int | str, dict[str, Any]]:
    """Return what the OpenAPI document says of an endpoint with these formats besides JSON."""
    files = {form.value: {"schema": {"type": "string"}} for form in offered if form is not Format.JSON}
    refused = {**RESPONSES[422], "description": "The Accept header allows no format of this response"}
    return {200: {"content": files}, 406: refused}


def documented_list() -> dict[int | str, dict[str, Any]]:
    """Return what ``documented`` does, for an endpoint that answers with a ranked list."""
    said = documented(*LIST_FORMATS)
    return {**said, 200: {**said[200], **COVERED}}


def coverage_header(coverage: float) -> dict[str, str]:
    """Return the header that says, in every format, what share of the papers was searched."""
    return {"X-Akin-Coverage": str(coverage)}


def ranked_file(
    form: Format,
    answer: SearchOut | RecommendationsOut,
    *,
    name: str,
    ranks: Iterable[int],
    for_spreadsheets: bool = False,
) -> Response:
    """Return a page of a ranked list as a file; headers hold what a file cannot.

    They are the next cursor, the reason, the codes of warnings, how many seeds and negatives could not be
    used, and the coverage.
    CSV ``for_spreadsheets`` begins with a byte order mark.
    """
    results = answer.results
    headers = {
        "X-Akin-Next-Cursor": answer.next_cursor,
        "X-Akin-Reason": answer.reason,
        "X-Akin-Warnings": ",".join(dict.fromkeys(each.code for each in answer.warnings)),
        "X-Akin-Unresolved": str(len(answer.unresolved)) if isinstance(answer, RecommendationsOut) else None,
        **coverage_header(answer.coverage),
    }
    if form is Format.CSV:
        text = BYTE_ORDER_MARK * for_spreadsheets + to_csv(results, ranks=ranks)
    elif form is Format.NDJSON:
        text = "".join(f"{result.model_dump_json()}\n" for result in results)
    else:
        text = _references(form, [result.paper for result in results])
    return _file(form, text, name=name, headers={key: value for key, value in headers.items() if value})


def paper_file(form: Format, paper: PaperOut) -> Response:
    """Return one paper as a file."""
    return _file(form, _references(form, [paper]), name="paper", headers={})


def _references(form: Format, papers: Sequence[PaperOut]) -> str:
    return to_bibtex(papers) if form is Format.BIBTEX else to_ris(papers)


def _file(form: Format, text: str, *, name: str, headers: dict[str, str]) -> Response:
    return Response(text.encode("utf-8", "replace"), headers={**file_headers(form, name), **headers})


def file_headers(form: Format, name: str) -> dict[str, str]:
    """Return the headers that make an answer a file: its media type and its name, and Vary."""
    charset = "" if form is Format.PARQUET else "; charset=utf-8"
    return {
        "Content-Type": f"{form}{charset}",
        "Content-Disposition": f'attachment; filename="{name}.{_FILE_ENDINGS[form]}"',
        **VARIES,
    }
