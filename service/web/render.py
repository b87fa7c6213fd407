"""Rendering of templates with escaping and a strict Content-Security-Policy."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from fastapi import Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from models.counts import counted
from service.web.assets import address

# A page may load scripts, styles and answers from this origin only, and may run no inline ones.
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
    """Return ``template`` filled with ``views`` as an HTML response."""
    return Response(
        _filled(template, views),
        status_code=status,
        media_type="text/html",
        headers={"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "private, no-cache"},
    )


def rendered(template: str, /, **views: object) -> str:
    """Return ``template`` filled with ``views``."""
    return _filled(template, views).decode()


def _filled(template: str, views: Mapping[str, object]) -> bytes:
    """Return ``template`` filled with ``views``, in UTF-8."""
    # Corpora may contain halves of surrogate pairs, which UTF-8 cannot encode.
    return templates().get_template(template).render(views).encode("utf-8", "replace")


def load_templates() -> None:
    """Compile all templates, which takes longer than to fill them, so that no request waits for it."""
    for name in templates().list_templates():
        templates().get_template(name)


@cache
def templates() -> Environment:
    """Return the Jinja environment with the page's templates and the functions that they may call."""
    environment = Environment(
        loader=PackageLoader("service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals["asset"] = address
    environment.globals["counted"] = counted
    return environment
