"""Renders templates with escaping and a strict Content-Security-Policy."""

from functools import cache
from typing import Final

from fastapi import Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from models.counts import counted
from service.web.assets import address

# What a browser lets a page do: scripts, styles and answers of this origin, and nothing that is in its text.
PAGE_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)


def render(template: str, /, status: int = 200, **views: object) -> Response:
    """The page that ``template`` makes of ``views``."""
    return Response(
        rendered(template, **views),
        status_code=status,
        media_type="text/html",
        headers={"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "private, no-cache"},
    )


def rendered(template: str, /, **views: object) -> str:
    """What ``template`` makes of ``views``."""
    # What corpora hold that is no text (halves of surrogate pairs) cannot be sent as it is.
    return templates().get_template(template).render(views).encode("utf-8", "replace").decode()


@cache
def templates() -> Environment:
    """The templates of the page, with what they may call."""
    environment = Environment(
        loader=PackageLoader("service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["asset"] = address
    environment.globals["counted"] = counted
    return environment
