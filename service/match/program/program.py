"""A program to match, read from files: submissions, profiles of reviewers, conflicts and quotas."""

import hashlib
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final

from indexer.corpus.read import MAX_REPORTED_ROWS, CorpusReport, read_corpus, without_ending
from indexer.corpus.rows import MAX_ID_CHARS
from indexer.files.durable import storage_errors
from models.errors import InputError
from models.types import Paper
from service.match.program.lists import listed_conflicts, listed_profiles, listed_quotas
from service.match.program.names import NameIndex, check_name, one_form
from service.resolve.titles import folded

MAX_PROFILES: Final = 50_000
_FOLDED_PROFILES: Final = 100
# Other files that people leave in a folder of profiles.
_BESIDE = re.compile(r"\..*|readme(?:\..*)?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ProfileSelection:
    """The papers of a profile that count: the ``most`` recent ones, not older than the year ``since``."""

    most: int | None = None
    since: int | None = None

    def chosen(self, papers: Sequence[Paper]) -> list[Paper]:
        """Return the papers that count, in the order given; a paper without a year is the oldest.

        For ``most``, papers with the same title and abstract count as one.
        """
        kept = [each for each in papers if self.since is None or (each.year or 0) >= self.since]
        if self.most is None:
            return kept
        latest: dict[tuple[str, str], int] = {}
        for place in sorted(range(len(kept)), key=lambda place: -(kept[place].year or 0)):
            latest.setdefault((kept[place].title, kept[place].abstract), place)
        return [kept[place] for place in sorted(list(latest.values())[: self.most])]


@dataclass(slots=True)
class Program:
    """Submissions by id, and profiles by name as ids of ``papers``, which contains all papers of both.

    ``conflicts`` are pairs of a submission and a profile. ``quotas`` are the most submissions of a profile;
    some profiles may have none. ``report`` says what could not be read, ``unusable`` how many submissions
    could not be read or have no abstract, ``left_out`` which profiles have no paper that counts, ``undated``
    how many papers of profiles have no year and so do not count, ``notes`` which lines were taken for
    headers.
    """

    submissions: list[str] = field(default_factory=list)
    profiles: dict[str, list[str]] = field(default_factory=dict)
    papers: dict[str, Paper] = field(default_factory=dict)
    conflicts: set[tuple[str, str]] = field(default_factory=set)
    quotas: dict[str, int] = field(default_factory=dict)
    report: CorpusReport = field(default_factory=CorpusReport)
    left_out: list[str] = field(default_factory=list)
    unusable: int = 0
    undated: int = 0
    notes: list[str] = field(default_factory=list)


def read_program(
    submissions: Sequence[Path],
    profiles: Path,
    *,
    corpora: Sequence[Path] = (),
    conflicts: Path | None = None,
    quotas: Path | None = None,
    wanted: ProfileSelection = ProfileSelection(),
    max_profiles: int = MAX_PROFILES,
) -> Program:
    """Read submissions from corpus files of any format, and profiles from a folder or a list.

    Each file of a folder, in any corpus format, is a profile named like the file without its ending. A list
    names papers of ``corpora``: a CSV file with a line for each profile and paper, or a JSON object,
    ``{profile: [paper, ...]}``. ``conflicts`` is a CSV file of submissions and profiles, ``quotas`` one of
    profiles and numbers; a first line without any known name is taken for a header.

    A profile's paper with the title of a submission is that submission. A profile that contains a submission,
    or is that of one of its authors (``NameIndex``), is in conflict with it. Raises InputError (also for more
    than ``max_profiles``), CorpusFormatError, BrokenRowError and StorageError.
    """
    program = Program()
    kept = _Papers(program.papers)
    _read_submissions(submissions, program, kept)
    kept.submissions, submitted = _by_title(program), set(program.submissions)
    if profiles.is_file():
        named = _of_list(profiles, corpora, program, max_profiles)
    else:
        named = _of_folder(profiles, program, max_profiles)
    for name, papers, titles in _with_titles(named):
        counted = wanted.chosen(papers)
        program.undated += wanted.since is not None and sum(each.year is None for each in papers)
        if not counted:
            program.left_out.append(name)
            continue
        program.profiles[name] = kept.ids(counted, titles, name)
        # A paper that is too old to count is in conflict, too.
        held = {*program.profiles[name], *kept.submitted(titles.values())}
        program.conflicts |= {(each, name) for each in held & submitted}
    if not program.profiles:
        raise InputError(f"{profiles}: there is no profile with a paper that counts.")
    people = NameIndex(program.profiles)
    for each in program.submissions:
        program.conflicts |= {(each, name) for name in people.of(program.papers[each])}
    _read_lists(program, conflicts, quotas)
    return program


def _read_submissions(paths: Sequence[Path], program: Program, kept: "_Papers") -> None:
    report = program.report
    for path in paths:
        for paper in read_corpus(path, report=report):
            program.submissions.append(kept.added(paper, "submission"))
    if report.duplicates:
        raise InputError(
            f"{report.duplicates} of {report.rows} submissions have the id of an earlier one: "
            f"{report.first_duplicate}. Give each its own id, or match the files one by one."
        )
    if not program.submissions:
        raise InputError(f"{', '.join(map(str, paths))}: there is no submission with an abstract.")
    program.unusable = report.broken + report.without_abstract


def _read_lists(program: Program, conflicts: Path | None, quotas: Path | None) -> None:
    names: Container[str] = {*program.profiles, *program.left_out}
    submissions = set(program.submissions)
    if conflicts is not None:
        given = listed_conflicts(conflicts, submissions, names, program.notes)
        program.conflicts |= {pair for pair in given if pair[1] in program.profiles}
    if quotas is not None:
        most = len(submissions)  # equivalent to no limit
        found = listed_quotas(quotas, names, program.notes, most=most)
        program.quotas = {name: number for name, number in found.items() if name in program.profiles}


def _by_title(program: Program) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    titles = folded([program.papers[each].title for each in program.submissions])
    for each, title in zip(program.submissions, titles, strict=True):
        if title:
            found.setdefault(title, []).append(each)
    return found


class _Papers:
    """Stores papers in ``papers`` under unique ids; ``submissions`` are ids by their folded titles."""

    def __init__(self, papers: dict[str, Paper]) -> None:
        self._papers = papers
        self._known: dict[tuple[str, str], str] = {}
        self.submissions: dict[str, list[str]] = {}

    def added(self, paper: Paper, origin: str) -> str:
        """Store a paper and return its id, or one made with ``origin`` if another paper has that id."""
        kept_id, number = paper.id, 1
        while kept_id in self._papers:
            number += 1
            kept_id = _made_id(f"{origin}/{paper.id}" + ("" if number == 2 else f"#{number}"))
        self._papers[kept_id] = paper if kept_id == paper.id else replace(paper, id=kept_id)
        self._known.setdefault((paper.title, paper.abstract), kept_id)
        return kept_id

    def ids(self, papers: Sequence[Paper], titles: Mapping[str, str], name: str) -> list[str]:
        """Return ids of a profile's papers: of a submission with its title, of a paper with its text, or new.

        ``titles`` are the folded titles, by title.
        """
        found: dict[str, None] = {}
        for paper in papers:
            known = self._known.get((paper.title, paper.abstract))
            same = self.submissions.get(titles[paper.title]) or [known or self.added(paper, name)]
            found |= dict.fromkeys(same)
        return list(found)

    def submitted(self, titles: Iterable[str]) -> Iterator[str]:
        """Yield the submissions that have one of these titles."""
        for title in titles:
            yield from self.submissions.get(title, ())


def _made_id(wanted: str) -> str:
    """Return ``wanted``, or its beginning and its digest if it is longer than an id may be."""
    if len(wanted) <= MAX_ID_CHARS:
        return wanted
    ending = f"#{hashlib.sha256(wanted.encode()).hexdigest()[:16]}"
    return wanted[: MAX_ID_CHARS - len(ending)] + ending


def _with_titles(
    named: Iterator[tuple[str, list[Paper]]],
) -> Iterator[tuple[str, list[Paper], dict[str, str]]]:
    """Yield profiles, papers and folded titles; titles are folded in groups, as one profile takes 3 ms."""
    while group := list(islice(named, _FOLDED_PROFILES)):
        titles = [paper.title for _, papers in group for paper in papers]
        plain = dict(zip(titles, folded(titles), strict=True))
        for name, papers in group:
            yield name, papers, {paper.title: plain[paper.title] for paper in papers}


def _of_folder(folder: Path, program: Program, max_profiles: int) -> Iterator[tuple[str, list[Paper]]]:
    for name, path in _named(folder, max_profiles).items():
        # Profiles may share papers, so each file gets its own report.
        report, papers = CorpusReport(), []
        if path.stat().st_size:  # OpenReview's file of a person without papers is empty
            papers = list(read_corpus(path, report=report))
        yield name, papers
        _note(report, program)


def _note(report: CorpusReport, program: Program) -> None:
    """Add what could not be read of a profile's papers to the report of the whole program."""
    program.report.broken += report.broken
    program.report.without_abstract += report.without_abstract
    room = max(0, MAX_REPORTED_ROWS - len(program.report.broken_rows))
    program.report.broken_rows += report.broken_rows[:room]


def _named(folder: Path, max_profiles: int) -> dict[str, Path]:
    """Return the files of a folder by profile name; raises InputError for a file that cannot be a profile."""
    with storage_errors(folder):
        paths = sorted(path for path in folder.iterdir() if not _BESIDE.fullmatch(path.name))
    _check_number(folder, len(paths), max_profiles)
    named: dict[str, Path] = {}
    for path in paths:
        place = f"{folder}: {path.name!a}"
        if not path.is_file():
            raise InputError(
                f"{place} is not a file; each profile is a file of papers, so move everything else elsewhere."
            )
        name = one_form(without_ending(path.name))
        try:
            check_name(name)
        except InputError as error:
            raise InputError(f"{place}: {error} Rename the file, in UTF-8.") from error
        if other := named.get(name):
            raise InputError(
                f"{folder}: {other.name} and {path.name} are both profiles of {name}; merge the files, or "
                "rename one."
            )
        named[name] = path
    return named


def _check_number(source: Path, n_profiles: int, most: int) -> None:
    if n_profiles > most:
        raise InputError(f"{source} has {n_profiles:,} profiles, more than {most:,}; match in parts.")


def _of_list(
    path: Path, corpora: Sequence[Path], program: Program, max_profiles: int
) -> Iterator[tuple[str, list[Paper]]]:
    if not corpora:
        raise InputError(f"{path} names papers; give the files that hold them with --corpus.")
    report = CorpusReport()  # its own, as a submission may be a paper of the corpora
    papers = {each.id: each for corpus in corpora for each in read_corpus(corpus, report=report)}
    _note(report, program)
    listed = listed_profiles(path, papers.keys(), program.notes)
    _check_number(path, len(listed), max_profiles)
    for name, ids in listed.items():
        yield name, [papers[each] for each in ids]
