"""What there is to match: submissions, profiles of reviewers, conflicts and quotas, read from files."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import orjson

from indexer.corpus.read import CorpusReport, read_corpus
from indexer.files.durable import storage_errors
from models.errors import BrokenRowError, CorpusFormatError, InputError
from models.types import Paper

MAX_PROFILES: Final = 50_000
# A list of names, conflicts or quotas; of a large conference it takes 20 MB.
_MAX_LIST_BYTES: Final = 256 * 2**20
_DIGITS: Final = "0123456789"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which papers of a profile count: the ``most`` recent ones, those from ``since`` (a year) on."""

    most: int | None = None
    since: int | None = None

    def chosen(self, papers: Sequence[Paper]) -> list[Paper]:
        """Those that count, in the order given; a paper without a year is older than every other."""
        kept = [each for each in papers if self.since is None or (each.year or 0) >= self.since]
        if self.most is None or len(kept) <= self.most:
            return kept
        recent = sorted(range(len(kept)), key=lambda place: -(kept[place].year or 0))[: self.most]
        return [kept[place] for place in sorted(recent)]


@dataclass(slots=True)
class Program:
    """Submissions by id, and profiles by name as ids of ``papers``, which holds all papers of both.

    ``conflicts`` are pairs of a submission and a profile; of ``quotas``, how many submissions a profile takes
    at most, a profile may have none. ``report`` says what could not be read, ``left_out`` which profiles have
    no paper that counts.
    """

    submissions: list[str] = field(default_factory=list)
    profiles: dict[str, list[str]] = field(default_factory=dict)
    papers: dict[str, Paper] = field(default_factory=dict)
    conflicts: set[tuple[str, str]] = field(default_factory=set)
    quotas: dict[str, int] = field(default_factory=dict)
    report: CorpusReport = field(default_factory=CorpusReport)
    left_out: list[str] = field(default_factory=list)


def read_program(
    submissions: Sequence[Path],
    profiles: Path,
    *,
    corpora: Sequence[Path] = (),
    conflicts: Path | None = None,
    quotas: Path | None = None,
    wanted: Wanted = Wanted(),
) -> Program:
    """Read submissions from corpus files of any format, and profiles from a folder or a list.

    Of a folder each file, of any corpus format, is a profile that has the file's name without its ending. A
    list names papers of ``corpora``: a CSV file with a line for each profile and paper, or a JSON object,
    ``{profile: [paper, ...]}``. ``conflicts`` is a CSV file of submissions and profiles, ``quotas`` one of
    profiles and numbers; a first line that names no known profile is taken for a header.

    A profile that has a submission among its papers, or the name of one of its authors, is in conflict with
    it. Raises InputError, CorpusFormatError, BrokenRowError and StorageError.
    """
    program = Program()
    known: dict[tuple[str, str], str] = {}
    for path in submissions:
        for paper in read_corpus(path, report=program.report):
            program.submissions.append(_kept(program, known, paper, origin="submission"))
    if not program.submissions:
        raise InputError(f"{', '.join(map(str, submissions))}: there is no submission with an abstract.")
    named = _of_list(profiles, corpora, program) if profiles.is_file() else _of_folder(profiles, program)
    for name, papers in named:
        counted = wanted.chosen(papers)
        if not counted:
            program.left_out.append(name)
            continue
        ids = (_kept(program, known, paper, origin=name) for paper in counted)
        program.profiles[name] = list(dict.fromkeys(ids))
    if not program.profiles:
        raise InputError(f"{profiles}: there is no profile with a paper that counts.")
    program.conflicts |= set(_own_conflicts(program))
    if conflicts is not None:
        program.conflicts |= set(_conflicts(conflicts, program))
    if quotas is not None:
        program.quotas = dict(_quotas(quotas, program))
    return program


def _kept(program: Program, known: dict[tuple[str, str], str], paper: Paper, *, origin: str) -> str:
    """The id under which a paper is kept: that of the same text, or its own, or one of its own made here."""
    content = paper.title, paper.abstract
    if content in known and origin != "submission":
        return known[content]
    kept_id, number = paper.id, 1
    while kept_id in program.papers:
        number += 1
        kept_id = f"{origin}/{paper.id}" if number == 2 else f"{origin}/{paper.id}#{number}"
    program.papers[kept_id] = paper if kept_id == paper.id else replace(paper, id=kept_id)
    known.setdefault(content, kept_id)
    return kept_id


def _of_folder(folder: Path, program: Program) -> Iterator[tuple[str, list[Paper]]]:
    with storage_errors(folder):
        files = sorted(path for path in folder.iterdir() if path.is_file() and path.name[0] != ".")
    if len(files) > MAX_PROFILES:
        raise InputError(f"{folder} holds {len(files):,} files, more than {MAX_PROFILES:,}; match in parts.")
    for path in files:
        # Profiles may share papers, so each file has a report of its own.
        report = CorpusReport()
        yield path.name.split(".")[0], list(read_corpus(path, report=report))
        program.report.broken += report.broken
        program.report.without_abstract += report.without_abstract
        program.report.broken_rows += report.broken_rows[: 20 - len(program.report.broken_rows)]


def _of_list(path: Path, corpora: Sequence[Path], program: Program) -> Iterator[tuple[str, list[Paper]]]:
    if not corpora:
        raise InputError(f"{path} names papers; give the files that hold them with --corpus.")
    papers = {each.id: each for corpus in corpora for each in read_corpus(corpus, report=program.report)}
    profiles: dict[str, list[str]] = {}
    if path.suffix == ".json":
        profiles = _json_profiles(path)
    else:
        for line, (name, paper_id) in _pairs(path):
            if paper_id in papers or line > 1:  # else a header
                profiles.setdefault(name, []).append(paper_id)
    if lost := [each for ids in profiles.values() for each in ids if each not in papers]:
        raise InputError(
            f"{path}: {len(lost)} papers are not in the files given with --corpus, such as {lost[0][:80]!r}."
        )
    for name, ids in profiles.items():
        yield name, [papers[each] for each in ids]


def _json_profiles(path: Path) -> dict[str, list[str]]:
    try:
        given = orjson.loads(_read(path))
    except orjson.JSONDecodeError as error:
        raise CorpusFormatError(f"{path} holds no valid JSON (line {error.lineno}): {error.msg}.") from error
    is_of_lists = isinstance(given, dict) and all(
        isinstance(ids, list) and all(isinstance(each, str) for each in ids) for ids in given.values()
    )
    if not is_of_lists:
        raise CorpusFormatError(f"{path}: expected one object, {{profile: [id of a paper, ...]}}.")
    profiles: dict[str, list[str]] = given
    return profiles


def _conflicts(path: Path, program: Program) -> Iterator[tuple[str, str]]:
    submissions = set(program.submissions)
    for line, (submission, profile) in _pairs(path):
        if submission in submissions and profile in program.profiles:
            yield submission, profile
        elif line > 1 and profile not in program.left_out:
            what = profile if submission in submissions else submission
            raise BrokenRowError(str(path), line, f"there is no submission or profile {what[:80]!r}")


def _quotas(path: Path, program: Program) -> Iterator[tuple[str, int]]:
    for line, (profile, quota) in _pairs(path):
        if profile in program.profiles and quota.isdecimal():
            yield profile, int(quota)
        elif line > 1 and profile not in program.left_out:
            known = profile in program.profiles
            reason = f"{quota[:20]!r} is no number" if known else f"there is no profile {profile[:80]!r}"
            raise BrokenRowError(str(path), line, reason)


def _pairs(path: Path) -> Iterator[tuple[int, tuple[str, str]]]:
    """The first two cells of each line, parted by commas or tabs, with its number."""
    try:
        text = _read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorpusFormatError(f"{path} is no UTF-8 text (byte {error.start}); convert it first.") from error
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    rows = csv.reader(text.splitlines(), delimiter=delimiter)
    for row in rows:
        if not row:
            continue
        if len(row) < 2:
            raise BrokenRowError(str(path), rows.line_num, "expected two cells, parted by a comma or a tab")
        yield rows.line_num, (row[0].strip(), row[1].strip())


def _read(path: Path) -> bytes:
    with storage_errors(path):
        if path.stat().st_size > _MAX_LIST_BYTES:
            raise InputError(f"{path} has over {_MAX_LIST_BYTES >> 20} MiB, more than a list of names has.")
        return path.read_bytes()


def _own_conflicts(program: Program) -> Iterator[tuple[str, str]]:
    """Submissions and the profiles of their authors."""
    by_person: dict[str, list[str]] = {}
    for name in program.profiles:
        by_person.setdefault(_person(name), []).append(name)
    holders: dict[str, list[str]] = {}
    for name, ids in program.profiles.items():
        for paper_id in ids:
            holders.setdefault(paper_id, []).append(name)
    for submission in program.submissions:
        authors = program.papers[submission].authors
        for name in holders.get(submission, []):
            yield submission, name
        for author in authors:
            for name in by_person.get(_person(author), []):
                yield submission, name


def _person(name: str) -> str:
    # OpenReview's names of people, ~Ada_Quill1, are those of authors, Ada Quill.
    bare = name.removeprefix("~").rstrip(_DIGITS)
    return " ".join(bare.replace("_", " ").casefold().split())
