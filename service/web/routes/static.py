"""``GET /static/...``: the style sheets and scripts of the pages."""

from typing import Final

from fastapi import APIRouter, HTTPException, Response

from service.access.policy import PUBLIC, requires
from service.web.assets import load_assets

router = APIRouter(include_in_schema=False)
_YEAR: Final = "public, max-age=31536000, immutable"


@router.get("/static/{version}/{name}")
@requires(PUBLIC)
def static(version: str, name: str) -> Response:
    """A file of the pages; of another version than this service's it is given, but not to be kept."""
    assets = load_assets()
    asset = assets.by_name.get(name)
    if asset is None:
        raise HTTPException(404, "The pages have no file of this name.")
    keep = _YEAR if version == assets.version else "no-store"
    return Response(asset.content, media_type=asset.media_type, headers={"Cache-Control": keep})
