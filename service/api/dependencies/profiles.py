"""The saved profiles of a caller, for endpoints that take papers or the names of saved profiles."""

from collections.abc import Mapping, Sequence

from fastapi import Request

from models.errors import ProfileNotFoundError
from service.api.dependencies.callers import owner_of
from service.api.services import services_of
from service.match.query import Profile


def kept_profiles(
    request: Request, names: Sequence[str], *, most_papers: int, with_conflicts: bool = True
) -> Mapping[str, Profile]:
    """Return the caller's profiles with these names, by name; raises what ``Profiles.named`` raises."""
    if not names:
        return {}
    store = services_of(request.app).profiles
    if not store.is_there:
        raise ProfileNotFoundError("This service has no saved profiles; give the papers of the profile.")
    owner = owner_of(request.state.caller)
    kept = store.get().named(names, owner=owner, most_papers=most_papers, with_conflicts=with_conflicts)
    return {profile.name: profile for profile in kept}
