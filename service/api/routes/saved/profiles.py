"""``/v1/profiles``: named sets of papers, saved for matches and recommendations."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AfterValidator

from models.errors import InputError
from service.access.policy import OWN, requires
from service.api.dependencies.callers import CallerDep, owner_of
from service.api.dependencies.engine import EngineDep
from service.api.dependencies.profiles import kept_profiles
from service.api.json_body import JSONBodyRoute
from service.api.middleware.routing import PATH_PATTERN
from service.api.schemas.saved.profiles import (
    MAX_LISTED,
    MAX_PAPERS,
    ProfileListOut,
    ProfileOut,
    ProfilePapersIn,
    ProfileSummaryOut,
)
from service.api.services import services_of
from service.match.program.names import MAX_NAME_CHARS, one_form
from service.match.query import Profile
from service.search.engine import SearchEngine

router = APIRouter(prefix="/v1/profiles", tags=["match"], route_class=JSONBodyRoute)
_BY_NAME = "/{name:path}"
_Name = Annotated[
    str,
    Path(
        min_length=1, max_length=MAX_NAME_CHARS, pattern=PATH_PATTERN, description="The name of the profile."
    ),
    AfterValidator(one_form),
]
_After = Annotated[str, Query(max_length=MAX_NAME_CHARS, pattern=PATH_PATTERN, description="next_after.")]


@router.get("")
@requires(OWN)
def profiles(request: Request, caller: CallerDep, after: _After = "") -> ProfileListOut:
    """Return the names of the caller's profiles."""
    store = services_of(request.app).profiles
    summaries = (
        store.get().summaries(owner=owner_of(caller), after=after, limit=MAX_LISTED + 1)
        if store.is_there
        else []
    )
    listed = summaries[:MAX_LISTED]
    return ProfileListOut(
        profiles=[ProfileSummaryOut(name=summary.name, quota=summary.quota) for summary in listed],
        next_after=listed[-1].name if len(summaries) > MAX_LISTED else None,
    )


@router.put(
    _BY_NAME, responses={201: {"model": ProfileOut, "description": "There was no profile with that name"}}
)
@requires(OWN)
def put_profile(
    name: _Name,
    body: ProfilePapersIn,
    request: Request,
    response: Response,
    engine: EngineDep,
    caller: CallerDep,
) -> ProfileOut:
    """Save a set of papers under a name, replacing what is there; sending it again changes nothing."""
    papers, lost = _resolved(engine, body.papers)
    conflicts, others_lost = _resolved(engine, body.conflicts)
    if len(lost) == len(body.papers):
        raise InputError("None of these papers is in the collection; add them first.")
    profile = Profile(name, papers, body.quota, conflicts)
    if services_of(request.app).profiles.get().put(profile, owner=owner_of(caller)):
        response.status_code = 201
    return ProfileOut.of(profile, (*lost, *others_lost))


@router.get(_BY_NAME)
@requires(OWN)
def profile(name: _Name, request: Request, engine: EngineDep) -> ProfileOut:
    """Return one profile."""
    kept = kept_profiles(request, [name], most_papers=MAX_PAPERS)[name]
    return ProfileOut.of(kept, _resolved(engine, [*kept.papers, *kept.conflicts])[1])


@router.delete(_BY_NAME, status_code=204)
@requires(OWN)
def delete_profile(name: _Name, request: Request, caller: CallerDep) -> None:
    """Delete a profile; one that is not there, or no longer, gives 204 too."""
    store = services_of(request.app).profiles
    if store.is_there:
        store.get().remove(name, owner=owner_of(caller))


def _resolved(engine: SearchEngine, names: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return papers by id, or by the given name if no paper has it yet, each once; and these names."""
    positions = engine.names.positions(names)
    lost = [name for name, position in zip(names, positions, strict=True) if position is None]
    kept = [
        name if position is None else engine.snapshot.paper(position, text=False).id
        for name, position in zip(names, positions, strict=True)
    ]
    return tuple(dict.fromkeys(kept)), tuple(lost)
