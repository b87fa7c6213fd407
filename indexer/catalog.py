"""The catalog: the system of record of papers, in SQLite by default, in PostgreSQL by URL.

The indexer writes it; builds, re-builds with another encoder and title look-up read it. Searches never do:
the service answers them from the snapshot alone. A row of ``papers`` or ``sentences`` never changes: a paper
whose content changes is a new row, and ``current_papers`` points at the version that was added last.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from sqlalchemy import Connection, Executable, func, select
from sqlalchemy import insert as plain_insert
from sqlalchemy.dialects import postgresql, sqlite

from indexer import migrations
from indexer.database import Database
from indexer.tables import Base, CurrentRow, PaperRow, SentenceRow
from models.errors import InputError, PaperNotFoundError
from models.types import Facet, Paper, Sentence

CATALOG_FILE: Final = "catalog.sqlite3"  # its name in the data folder

_BATCH_PAPERS: Final = 500  # ids in one statement; SQLite allows 32,766 variables
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")  # PostgreSQL keeps no NUL, UTF-8 no lone surrogate
_MAX_YEAR: Final = 2**31 - 1  # of a PostgreSQL integer

_CURRENT_PAPERS: Final = select(PaperRow.__table__).join(CurrentRow, CurrentRow.paper_key == PaperRow.key)


class Catalog:
    """The papers of one database, each in its current version; open it with ``Catalog.open``.

    Every method raises ``StorageError`` where the database cannot be reached, read or written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, url_or_path: str | Path) -> "Catalog":
        """Opens a catalog, creating it or bringing its schema up to date first.

        Several processes may do so at once.

        Args:
            url_or_path: a path of a SQLite file, or a URL ``sqlite:///...`` or ``postgresql://...``.

        Raises:
            InputError: a URL of another kind of database, or none at all.
            MissingPackageError: PostgreSQL without its driver.
            StorageError: it cannot be opened, or a newer version of Akin wrote it.
        """
        return cls(migrations.open_database(url_or_path))

    def add(self, papers: Sequence[Paper]) -> int:
        """Adds papers in one transaction and makes each the current version of its id.

        Of several with one id the last is current. Content that is there already is left as it is, so adding
        again changes nothing.

        Returns:
            How many of them were new.

        Raises:
            InputError: a paper that would not come back as it was given; nothing was added.
        """
        for paper in papers:
            _check(paper)
        if not papers:
            return 0
        hashes = [content_hash(paper) for paper in papers]
        current = {paper.id: digest for paper, digest in zip(papers, hashes, strict=True)}
        with self._database.writing() as connection:
            new = _insert_papers(connection, dict(zip(hashes, papers, strict=True)))
            _point(connection, list(current.values()))
        return new

    def paper(self, paper_id: str) -> Paper:
        """The current version of one paper.

        Raises:
            PaperNotFoundError: the catalog holds no such id.
        """
        return next(self.papers([paper_id]))

    def papers(self, paper_ids: Iterable[str]) -> Iterator[Paper]:
        """The current versions of papers, in the order of ``paper_ids``, read a batch at a time.

        Raises:
            PaperNotFoundError: at the first id that the catalog does not hold.
        """
        wanted = list(paper_ids)
        for start in range(0, len(wanted), _BATCH_PAPERS):
            batch = wanted[start : start + _BATCH_PAPERS]
            storable = [paper_id for paper_id in batch if not _UNSTORABLE.search(paper_id)]
            statement = _CURRENT_PAPERS.where(CurrentRow.paper_id.in_(storable))
            with self._database.reading() as connection:
                found = {paper.id: paper for paper in _read(connection, statement)}
            for paper_id in batch:
                if paper_id not in found:
                    raise PaperNotFoundError(
                        f"the catalog {self._database.place} holds no paper {paper_id!r}; "
                        "check the id, or ingest the paper first"
                    )
                yield found[paper_id]

    def paper_ids(self) -> list[str]:
        """The id of every paper, in the order in which their current versions first came in."""
        statement = select(CurrentRow.paper_id).order_by(CurrentRow.paper_key)
        with self._database.reading() as connection:
            return list(connection.scalars(statement))

    def count(self) -> int:
        """How many papers there are, each counted once however many versions it has."""
        with self._database.reading() as connection:
            return connection.execute(select(func.count()).select_from(CurrentRow)).scalar_one()

    def find_title(self, text: str, limit: int = 10) -> list[Paper]:
        """Papers whose title contains ``text``, at most ``limit``, those that start with it first.

        Case, width and runs of spaces do not count. A blank text finds nothing.
        """
        folded = _folded(text)
        if not folded or _UNSTORABLE.search(folded):
            return []
        with self._database.reading() as connection:
            position = func.instr if connection.dialect.name == "sqlite" else func.strpos
            found = position(PaperRow.folded_title, folded)
            statement = _CURRENT_PAPERS.where(found > 0).order_by(found > 1, PaperRow.key).limit(limit)
            return _read(connection, statement)

    def close(self) -> None:
        """Closes every connection to the database."""
        self._database.close()

    def __enter__(self) -> "Catalog":  # noqa: PYI034 - the tests' type checker knows no Self in methods
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def content_hash(paper: Paper) -> str:
    """SHA-256 (hex) of everything a paper says, sentence offsets and facets included.

    Equal papers have equal hashes in every process and version of Python.
    """
    content = [
        paper.id,
        paper.title,
        paper.abstract,
        [(sentence.start, sentence.end, sentence.facet) for sentence in paper.sentences],
        paper.year,
        paper.venue,
        paper.authors,
        paper.url,
        paper.doi,
        paper.fields,
    ]
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode("ascii")).hexdigest()


def _check(paper: Paper) -> None:
    """Refuses what one of the databases would refuse or change, so that both hold the same papers."""
    texts = (paper.id, paper.title, paper.abstract, paper.venue, paper.url, paper.doi)
    for text in (*texts, *paper.authors, *paper.fields):
        if text is not None and (bad := _UNSTORABLE.search(text)):
            raise InputError(
                f"paper {paper.id!r} holds the character {bad.group()!r} in {text[:60]!r}, "
                "expected text without NUL and lone surrogates; remove it"
            )
    if paper.year is not None and abs(paper.year) > _MAX_YEAR:
        raise InputError(f"paper {paper.id!r} has the year {paper.year}, expected a year; correct it")
    for number, sentence in enumerate(paper.sentences):
        if paper.abstract[sentence.start : sentence.end] != sentence.text:
            raise InputError(
                f"sentence {number} of paper {paper.id!r} is {sentence.text[:60]!r}, expected its abstract "
                f"at [{sentence.start}:{sentence.end}]; split the abstract again"
            )


def _insert(connection: Connection, table: type[Base]) -> sqlite.Insert | postgresql.Insert:
    """An INSERT in the database's own dialect: what to do on a conflict is not in standard SQL."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def _insert_papers(connection: Connection, papers: dict[str, Paper]) -> int:
    """Inserts those papers, given by content hash, that are not there yet; returns how many they were."""
    insert = _insert(connection, PaperRow).on_conflict_do_nothing()
    added = connection.execute(
        insert.returning(PaperRow.key, PaperRow.content_hash),
        [_columns(digest, paper) for digest, paper in papers.items()],
    ).all()
    sentences = [
        {"paper_key": key, "position": i, "start": one.start, "end": one.end, "facet": one.facet}
        for key, digest in added
        for i, one in enumerate(papers[digest].sentences)
    ]
    if sentences:
        connection.execute(plain_insert(SentenceRow), sentences)
    return len(added)


def _columns(digest: str, paper: Paper) -> dict[str, Any]:
    return {
        "paper_id": paper.id,
        "content_hash": digest,
        "title": paper.title,
        "folded_title": _folded(paper.title),
        "abstract": paper.abstract,
        "year": paper.year,
        "venue": paper.venue,
        "authors": list(paper.authors),
        "url": paper.url,
        "doi": paper.doi,
        "fields": list(paper.fields),
    }


def _point(connection: Connection, digests: Sequence[str]) -> None:
    """Makes the versions with these content hashes current."""
    for start in range(0, len(digests), _BATCH_PAPERS):
        versions = select(PaperRow.paper_id, PaperRow.key).where(
            PaperRow.content_hash.in_(digests[start : start + _BATCH_PAPERS])
        )
        insert = _insert(connection, CurrentRow).from_select(["paper_id", "paper_key"], versions)
        connection.execute(
            insert.on_conflict_do_update(
                index_elements=[CurrentRow.paper_id],
                set_={"paper_key": insert.excluded.paper_key},
                where=CurrentRow.paper_key != insert.excluded.paper_key,
            )
        )


def _read(connection: Connection, statement: Executable) -> list[Paper]:
    """The papers, with their sentences, of the rows of ``papers`` a statement selects, in their order."""
    rows = connection.execute(statement).all()
    abstracts = {row.key: row.abstract for row in rows}
    sentences: dict[int, list[Sentence]] = {key: [] for key in abstracts}
    in_order = (
        select(SentenceRow.paper_key, SentenceRow.start, SentenceRow.end, SentenceRow.facet)
        .where(SentenceRow.paper_key.in_(abstracts))
        .order_by(SentenceRow.paper_key, SentenceRow.position)
    )
    for key, start, end, facet in connection.execute(in_order):
        text = abstracts[key][start:end]
        sentences[key].append(Sentence(text, start, end, None if facet is None else Facet(facet)))
    return [
        Paper(
            id=row.paper_id,
            title=row.title,
            abstract=row.abstract,
            sentences=tuple(sentences[row.key]),
            year=row.year,
            venue=row.venue,
            authors=tuple(row.authors),
            url=row.url,
            doi=row.doi,
            fields=tuple(row.fields),
        )
        for row in rows
    ]


def _folded(text: str) -> str:
    """Text as titles are compared: one width, one case, one space between words."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
