"""Lists for a match: papers of profiles, conflicts and quotas, as tables of two columns or JSON.

The first line of a table is a header if neither of its cells is known, and that is noted. Any other unknown
name is an error with file and line.
"""

import csv
import io
import json
from collections.abc import Collection, Container, Iterator
from pathlib import Path
from typing import Final

from indexer.files.durable import storage_errors
from models.errors import BrokenRowError, CorpusFormatError, InputError
from service.match.program.names import check_name, one_form

# The most bytes of a list of names, conflicts or quotas; that of a large conference takes 20 MB.
_MAX_BYTES: Final = 256 * 2**20


class Table:
    """The lines of a file with cells separated by commas or tabs; only the first two cells count.

    Iteration yields line numbers and cells. Raises CorpusFormatError, BrokenRowError, StorageError, and
    InputError for a file that is too large.
    """

    def __init__(self, path: Path, notes: list[str]) -> None:
        self.path = path
        self._notes = notes
        self._first: int | None = None

    def __iter__(self) -> Iterator[tuple[int, str, str]]:
        try:
            text = _read(self.path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise CorpusFormatError(
                f"{self.path} is not UTF-8 text (byte {error.start}); convert it first."
            ) from error
        delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        try:
            for row in rows:
                if not row:
                    continue
                if len(row) < 2:
                    raise self.broken(rows.line_num, "expected two cells, separated by a comma or a tab")
                self._first = rows.line_num if self._first is None else self._first
                yield rows.line_num, row[0].strip(), row[1].strip()
        except csv.Error as error:
            raise self.broken(rows.line_num, str(error)) from error

    def is_header(self, line: int, *cells: str) -> bool:
        """Return whether a line without known cells is the first one; if so, note it as a header."""
        if line != self._first:
            return False
        self._notes.append(f"{self.path}:{line}: read as a header: {', '.join(cells)[:200]}")
        return True

    def broken(self, line: int, reason: str) -> BrokenRowError:
        """Return the error for a line that cannot be used."""
        return BrokenRowError(str(self.path), line, reason)


def listed_profiles(path: Path, papers: Collection[str], notes: list[str]) -> dict[str, list[str]]:
    """Return the paper ids of each profile, all of them from ``papers``."""
    if path.suffix.lower() == ".json":
        return _json_profiles(path, papers)
    table = Table(path, notes)
    profiles: dict[str, list[str]] = {}
    doubtful: tuple[int, str, str] | None = None
    for line, name, paper in table:
        if paper in papers:
            profiles.setdefault(_checked(table, line, name), []).append(paper)
        elif table.is_header(line, name, paper):
            doubtful = line, one_form(name), paper
        else:
            raise table.broken(line, _missing(paper))
    if doubtful and doubtful[1] in profiles:
        # The profile is also on other lines, so the first line was no header.
        raise table.broken(doubtful[0], _missing(doubtful[2]))
    return profiles


def listed_conflicts(
    path: Path, submissions: Container[str], profiles: Container[str], notes: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield pairs of a submission and a profile."""
    table = Table(path, notes)
    for line, submission, given in table:
        profile = one_form(given)
        known = submission in submissions, profile in profiles
        if all(known):
            yield submission, profile
        elif any(known) or not table.is_header(line, submission, given):
            what = f"profile {given[:80]!r}" if known[0] else f"submission {submission[:80]!r}"
            raise table.broken(line, f"there is no {what}")


def listed_quotas(path: Path, profiles: Container[str], notes: list[str], *, most: int) -> dict[str, int]:
    """Return how many submissions each listed profile takes; larger numbers become ``most``."""
    table = Table(path, notes)
    quotas: dict[str, int] = {}
    for line, given, number in table:
        profile, is_number = one_form(given), number.isascii() and number.isdecimal()
        if profile in profiles and is_number:
            # Python refuses to read numbers with very many digits.
            quota = min(int(number), most) if len(number.lstrip("0")) < 20 else most
            if quotas.setdefault(profile, quota) != quota:
                raise table.broken(line, f"{given[:80]!r} has another quota on an earlier line")
        elif profile in profiles:
            raise table.broken(line, f"{number[:20]!r} is not a number")
        elif is_number or not table.is_header(line, given, number):
            raise table.broken(line, f"there is no profile {given[:80]!r}")
    return quotas


def _checked(table: Table, line: int, name: str) -> str:
    try:
        check_name(kept := one_form(name))
    except InputError as error:
        raise table.broken(line, str(error)) from error
    return kept


def _missing(paper: str) -> str:
    return f"there is no paper {paper[:80]!r} in the files given with --corpus"


def _json_profiles(path: Path, papers: Collection[str]) -> dict[str, list[str]]:
    def each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found: dict[str, object] = {}
        for given, ids in pairs:
            if (name := one_form(given)) in found:
                raise InputError(f"{path}: {name[:80]!r} occurs twice; give all its papers in one list.")
            found[name] = ids
        return found

    try:
        profiles = json.loads(_read(path), object_pairs_hook=each_once)
    except (ValueError, RecursionError) as error:
        raise CorpusFormatError(f"{path} is not valid JSON: {error}.") from error
    is_of_lists = isinstance(profiles, dict) and all(
        isinstance(ids, list) and all(isinstance(each, str) for each in ids) for ids in profiles.values()
    )
    if not is_of_lists:
        raise CorpusFormatError(f"{path}: expected one object, {{profile: [id of a paper, ...]}}.")
    for name, ids in profiles.items():
        try:
            check_name(name)
        except InputError as error:
            raise InputError(f"{path}: {name[:80]!r}: {error}") from error
        for each in ids:
            if each not in papers:
                raise InputError(f"{path}: {name[:80]!r}: {_missing(each)}.")
    return dict(profiles)


def _read(path: Path) -> bytes:
    with storage_errors(path):
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(
                f"{path} has over {_MAX_BYTES >> 20} MiB, which is too large for a list of names."
            )
        return path.read_bytes()
