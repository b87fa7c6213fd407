"""Profiles: named sets of papers in the catalog's database."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, literal, select

from indexer.catalog.database import Database
from indexer.catalog.store import Store
from indexer.catalog.tables import ProfileRow
from models.errors import InputError, ProfileNotFoundError
from service.access.api_keys import expect_not_revoked
from service.context import check_deadline
from service.match.program.names import check_name
from service.match.query import Profile, at_most

MAX_PER_OWNER: Final = 50_000
# The papers and conflicts of all profiles of an owner, as stored: 130 papers in each of 50,000 profiles.
_MAX_MIB: Final = 128
_MIB: Final = 1 << 20
# Names looked up by one SQL statement; some databases return all rows of a statement at once.
_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class ProfileSummary:
    """A profile without its papers and conflicts."""

    name: str
    quota: int | None


class Profiles(Store):
    """The profiles of one database; open them with ``Profiles.open``.

    Every method raises ``StorageError`` if the database cannot be reached, read or written. No owner has more
    than ``most_of_owner`` profiles. Once their papers and conflicts hold ``most_mib`` MiB, only profiles are
    saved of which ``most_of_owner`` hold no more than that.
    """

    def __init__(
        self, database: Database, *, most_of_owner: int = MAX_PER_OWNER, most_mib: int = _MAX_MIB
    ) -> None:
        super().__init__(database)
        self._most_of_owner = most_of_owner
        self._most_mib = most_mib

    def put(self, profile: Profile, *, owner: str) -> bool:
        """Save a profile, replacing the owner's profile with that name; return whether it is a new one.

        Raises InputError for a name that is blank, too long or not printable, and for too many profiles or
        papers; KeyRefusedError if ``owner`` is a key that was revoked, whose profiles were deleted with it.
        """
        check_name(profile.name)
        papers, conflicts = json.dumps(profile.papers), json.dumps(profile.conflicts)
        self._expect_room(len(papers) + len(conflicts), owner=owner, but=profile.name)
        which = _of(owner, [profile.name])
        with self.database.writing() as connection:
            expect_not_revoked(connection, owner)
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
                "papers": papers,
                "conflicts": conflicts,
                "quota": profile.quota,
            }
            connection.execute(insert(ProfileRow).values(row))
        return not replaced

    def summaries(self, *, owner: str, after: str, limit: int) -> list[ProfileSummary]:
        """Return at most ``limit`` profiles of ``owner`` sorted by name, after the name ``after``."""
        statement = (
            select(ProfileRow.name, ProfileRow.quota)
            .where(ProfileRow.owner == owner, ProfileRow.name > after)
            .order_by(ProfileRow.name)
            .limit(limit)
        )
        with self.database.reading() as connection:
            return [ProfileSummary(*row) for row in connection.execute(statement)]

    def named(
        self, names: Sequence[str], *, owner: str, most_papers: int, with_conflicts: bool = True
    ) -> list[Profile]:
        """Return the profiles of ``owner`` with these names, in this order.

        Raises ProfileNotFoundError, DeadlineError, and QueryError as soon as there are over ``most_papers``
        papers or conflicts; the rest is not read.
        """
        with self.database.reading() as connection:
            kept = _read(connection, list(dict.fromkeys(names)), owner, with_conflicts=with_conflicts)
            found = {profile.name: profile for profile in at_most(most_papers, kept)}
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

    def _expect_room(self, n_bytes: int, *, owner: str, but: str) -> None:
        """Raise InputError if the owner's profiles except ``but`` leave no room for ``n_bytes``."""
        most = self._most_mib * _MIB
        if n_bytes * self._most_of_owner <= most:
            return  # summing up the others would take longer than storing it
        others = and_(ProfileRow.owner == owner, ProfileRow.name != but)
        size = func.length(ProfileRow.papers) + func.length(ProfileRow.conflicts)
        with self.database.reading() as connection:  # no writer waits for this
            held = connection.execute(select(func.coalesce(func.sum(size), 0)).where(others)).scalar_one()
        if held + n_bytes > most:
            raise InputError(
                f"With this profile, the papers and conflicts of your profiles would hold over "
                f"{self._most_mib} MiB, the limit for one caller; delete some profiles."
            )


def _read(
    connection: Connection, names: Sequence[str], owner: str, *, with_conflicts: bool
) -> Iterator[Profile]:
    conflicting = ProfileRow.conflicts if with_conflicts else literal("[]")
    statement = select(ProfileRow.name, ProfileRow.papers, conflicting, ProfileRow.quota)
    for start in range(0, len(names), _AT_ONCE):
        check_deadline()
        rows = connection.execute(statement.where(_of(owner, names[start : start + _AT_ONCE])))
        for name, papers, conflicts, quota in rows:
            yield Profile(name, tuple(json.loads(papers)), quota, tuple(json.loads(conflicts)))


def _of(owner: str, names: Sequence[str]) -> ColumnElement[bool]:
    # Not every database accepts every text as a parameter.
    askable = [name for name in names if name.isprintable()]
    return and_(ProfileRow.owner == owner, ProfileRow.name.in_(askable))
