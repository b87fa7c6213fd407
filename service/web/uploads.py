"""Parsing of multipart forms with files (RFC 7578) from a request body in memory."""

import re
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Request

from models.errors import InputError

# A form of the page has the fields of a query, a file, and a list.
_MAX_PARTS: Final = 500
_BOUNDARY: Final = re.compile(
    r"multipart/form-data;\s{0,5}boundary=(\"[^\"]{1,70}\"|[^\s;\"]{1,70})", re.IGNORECASE
)
_DISPOSITION: Final = re.compile(rb"content-disposition:\s{0,5}form-data;([^\r\n]{1,4000})", re.IGNORECASE)
_PARAMETER: Final = re.compile(r';?\s{0,5}(name|filename)="([^"]{0,2000})"')
# Browsers escape the characters that would end a name.
_ESCAPES: Final = (("%22", '"'), ("%0D", "\r"), ("%0A", "\n"))


async def _body(request: Request) -> bytes:
    return await request.body()


BodyDep = Annotated[bytes, Depends(_body)]


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form: its name, its content, and its file name if it is a file."""

    name: str
    content: bytes
    filename: str | None = None


def form_parts(body: bytes, content_type: str) -> list[FormField]:
    """Return the fields of a form in order; raises InputError if it is not a form or has too many fields."""
    boundary = _BOUNDARY.match(content_type)
    if boundary is None:
        raise InputError("The request is not the form of this page; send multipart/form-data.")
    mark = b"\r\n--" + boundary[1].strip('"').encode()
    _, *parts = (b"\r\n" + body).split(mark, _MAX_PARTS + 1)
    if len(parts) > _MAX_PARTS:
        raise InputError(f"The form has more than {_MAX_PARTS} fields; leave some out.")
    if not parts or not parts[-1].startswith(b"--"):
        raise InputError("The form ends early; send it again.")
    return [_part(part) for part in parts[:-1]]


def _part(part: bytes) -> FormField:
    head, found, content = part.partition(b"\r\n\r\n")
    disposition = _DISPOSITION.search(head)
    given = dict(_PARAMETER.findall(disposition[1].decode(errors="replace"))) if disposition and found else {}
    if "name" not in given:
        raise InputError("A field of the form has no name; send the form of this page.")
    filename = given.get("filename")
    return FormField(_unescaped(given["name"]), content, None if filename is None else _unescaped(filename))


def _unescaped(name: str) -> str:
    for written, meant in _ESCAPES:
        name = name.replace(written, meant)
    return name
