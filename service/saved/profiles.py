"""Profiles: named sets of papers in the catalog's database."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, and_, delete, func, insert, select

from indexer.catalog.database import Database
from indexer.catalog.store import Store
from indexer.catalog.tables import ProfileRow
from models.errors import InputError, ProfileNotFoundError
from service.match.program.names import check_name
from service.match.query import Profile

MOST_OF_OWNER: Final = 50_000
# Names looked up by one SQL statement.
_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class ProfileHead:
    """A profile without its papers and conflicts."""

    name: str
    quota: int | None


class Profiles(Store):
    """The profiles of one database; open them with ``Profiles.open``.

    Every method raises ``StorageError`` if the database cannot be reached, read or written. No owner has more
    than ``most_of_owner`` profiles.
    """

    def __init__(self, database: Database, *, most_of_owner: int = MOST_OF_OWNER) -> None:
        super().__init__(database)
        self._most_of_owner = most_of_owner

    def put(self, profile: Profile, *, owner: str) -> bool:
        """Save a profile, replacing the owner's profile with that name; return whether it is a new one.

        Raises InputError for a name that is blank, too long or not printable, and for too many profiles.
        """
        check_name(profile.name)
        which = _of(owner, [profile.name])
        with self.database.writing() as connection:
            replaced = connection.execute(delete(ProfileRow).where(which)).rowcount
            n_kept = select(func.count()).select_from(ProfileRow).where(ProfileRow.owner == owner)
            if connection.execute(n_kept).scalar_one() >= self._most_of_owner:
                raise InputError(
                    f"{self._most_of_owner} profiles are saved already, the limit for one caller; delete "
                    "some."
                )
            row = {
                "owner": owner,
                "name": profile.name,
                "papers": json.dumps(profile.papers),
                "conflicts": json.dumps(profile.conflicts),
                "quota": profile.quota,
            }
            connection.execute(insert(ProfileRow).values(row))
        return not replaced

    def heads(self, *, owner: str, after: str, limit: int) -> list[ProfileHead]:
        """Return at most ``limit`` profiles of ``owner`` sorted by name, after the name ``after``."""
        statement = (
            select(ProfileRow.name, ProfileRow.quota)
            .where(ProfileRow.owner == owner, ProfileRow.name > after)
            .order_by(ProfileRow.name)
            .limit(limit)
        )
        with self.database.reading() as connection:
            return [ProfileHead(*row) for row in connection.execute(statement)]

    def named(self, names: Sequence[str], *, owner: str) -> list[Profile]:
        """Return the profiles of ``owner`` with these names, in this order; raises ProfileNotFoundError."""
        columns = (ProfileRow.name, ProfileRow.papers, ProfileRow.conflicts, ProfileRow.quota)
        found: dict[str, Profile] = {}
        with self.database.reading() as connection:
            for start in range(0, len(names), _AT_ONCE):
                which = _of(owner, names[start : start + _AT_ONCE])
                for name, papers, conflicts, quota in connection.execute(select(*columns).where(which)):
                    found[name] = Profile(
                        name, tuple(json.loads(papers)), quota, tuple(json.loads(conflicts))
                    )
        if lost := [name for name in names if name not in found]:
            raise ProfileNotFoundError(
                f"{len(lost)} of the named profiles are unknown; give their papers, or save them with PUT "
                "/v1/profiles/{name} first."
            )
        return [found[name] for name in names]

    def remove(self, name: str, *, owner: str) -> None:
        """Delete a profile; do nothing if there is none."""
        with self.database.writing() as connection:
            connection.execute(delete(ProfileRow).where(_of(owner, [name])))


def _of(owner: str, names: Sequence[str]) -> ColumnElement[bool]:
    # Not every database accepts every text as a parameter.
    askable = [name for name in names if name.isprintable()]
    return and_(ProfileRow.owner == owner, ProfileRow.name.in_(askable))
