"""``/v1/profiles``: named sets of papers that are saved."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from models.errors import InputError
from service.api.schemas.base import WHOLE, PaperName, Strict
from service.match.program.names import MAX_NAME_CHARS, check_name, one_form
from service.match.query import Profile

# Papers of all profiles of a match together: a quarter of a million comparisons, in seconds.
MAX_PAPERS = 5_000
# Profiles on one page of the list.
MAX_LISTED = 1_000


def profile_name(given: str) -> str:
    """Return a name in the form in which it is stored; raises ValueError if a profile may not have it."""
    try:
        check_name(given)
    except InputError as error:
        raise ValueError(str(error)) from error
    return one_form(given)


ProfileName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS), AfterValidator(profile_name)]
Quota = Annotated[int, Field(ge=0, le=1_000), WHOLE]
Papers = Annotated[list[PaperName], Field(fail_fast=True, max_length=MAX_PAPERS)]


class ProfilePapersIn(Strict):
    """The content of a profile: papers of the collection, by id, DOI, arXiv id, address or title."""

    papers: Annotated[list[PaperName], Field(fail_fast=True, min_length=1, max_length=MAX_PAPERS)]
    conflicts: Papers = Field(
        default_factory=list, description="Papers that the profile is never matched with."
    )
    quota: Quota | None = Field(
        default=None,
        description="Maximum number of submissions assigned to the profile; null: the same as "
        "for all others.",
    )


class ProfileOut(BaseModel):
    """A profile as it is saved, with the ids of papers, or the names given for papers that were not here.

    ``unresolved`` are the names that no paper here has; they count once such a paper is added.
    """

    name: str
    papers: tuple[str, ...]
    conflicts: tuple[str, ...]
    quota: int | None
    unresolved: tuple[str, ...] = ()

    @classmethod
    def of(cls, profile: Profile, unresolved: tuple[str, ...] = ()) -> "ProfileOut":
        """Build from the domain value."""
        return cls(
            name=profile.name,
            papers=profile.papers,
            conflicts=profile.conflicts,
            quota=profile.quota,
            unresolved=unresolved,
        )


class ProfileSummaryOut(BaseModel):
    """A profile without its papers and conflicts."""

    name: str
    quota: int | None


class ProfileListOut(BaseModel):
    """The caller's profiles, sorted by name; ``next_after`` leads to the next page, null at the end."""

    profiles: list[ProfileSummaryOut]
    next_after: str | None
