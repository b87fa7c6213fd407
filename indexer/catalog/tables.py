"""The tables of the catalog, the same in SQLite and PostgreSQL; ``indexer/migrations`` changes older ones."""

from sqlalchemy import JSON, BigInteger, ForeignKey, LargeBinary, MetaData, String, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """Every table of the catalog; constraints get the same names in both databases."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class PaperRow(Base):
    """One version of a paper."""

    __tablename__ = "papers"
    __table_args__ = ({"sqlite_autoincrement": True},)  # a key that was given once is never given again

    key: Mapped[int] = mapped_column(primary_key=True)
    paper_id: Mapped[str] = mapped_column(index=True)
    content_hash: Mapped[str] = mapped_column(String(64), unique=True)
    title: Mapped[str]
    abstract: Mapped[str]
    year: Mapped[int | None]
    venue: Mapped[str | None]
    authors: Mapped[list[str]] = mapped_column(JSON)
    url: Mapped[str | None]
    doi: Mapped[str | None]
    fields: Mapped[list[str]] = mapped_column(JSON)


class SentenceRow(Base):
    """One sentence of one version of a paper: ``abstract[start:end]``."""

    __tablename__ = "sentences"
    __table_args__ = ({"sqlite_with_rowid": False},)  # stored in the order of its key, once

    paper_key: Mapped[int] = mapped_column(ForeignKey(PaperRow.key), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    start: Mapped[int]
    end: Mapped[int]
    facet: Mapped[str | None]


class CurrentRow(Base):
    """Which version of a paper is current: the only row that changes in place; no snapshot refers to it.

    Without a version the paper is deleted. ``change`` counts the transactions that changed the collection:
    the last of them that this paper was in. ``added`` is that in which it came, or came back after it was
    deleted, and ``added_at`` when that was, in Unix seconds, UTC.
    """

    __tablename__ = "current_papers"

    paper_id: Mapped[str] = mapped_column(primary_key=True)
    paper_key: Mapped[int | None] = mapped_column(ForeignKey(PaperRow.key), unique=True)
    change: Mapped[int] = mapped_column(BigInteger, index=True)
    added: Mapped[int] = mapped_column(BigInteger)
    added_at: Mapped[int] = mapped_column(BigInteger)


class StagedRow(Base):
    """A version of a paper that waits to be published, and the ``load`` that it waits in.

    ``brought``: no paper has had that version; it goes where the load is given up.
    """

    __tablename__ = "staged_papers"

    paper_id: Mapped[str] = mapped_column(primary_key=True)
    paper_key: Mapped[int] = mapped_column(ForeignKey(PaperRow.key), index=True)
    load: Mapped[str] = mapped_column(String(64))
    brought: Mapped[bool]


class QuarantineRow(Base):
    """A current version of a paper that could not be encoded by some ``models``, and the reason.

    ``models`` is ``Manifest.models_key`` of what it would have been published in: others may encode it.
    """

    __tablename__ = "quarantine"

    paper_key: Mapped[int] = mapped_column(ForeignKey(PaperRow.key), primary_key=True)
    models: Mapped[str] = mapped_column(String(64), primary_key=True)
    reason: Mapped[str]


class IdentityRow(Base):
    """Which catalog this is: one row with a random id, the same in every copy of the database."""

    __tablename__ = "identity"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)


class KeyRow(Base):
    """One API key: never the key itself, but the SHA-256 of its secret; times are Unix seconds, UTC.

    Rows stay: a revoked key is one with ``revoked_at``.
    """

    __tablename__ = "keys"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    name: Mapped[str]
    scope: Mapped[str]
    secret_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[int] = mapped_column(BigInteger)
    expires_at: Mapped[int | None] = mapped_column(BigInteger)
    revoked_at: Mapped[int | None] = mapped_column(BigInteger)


class JobRow(Base):
    """One batch: whose it is, the generation it is answered from, and how far it is; times as in ``KeyRow``.

    ``shared`` is what all its queries have in common, ``error`` why it failed.
    """

    __tablename__ = "jobs"
    # Rows without a key do not contradict each other: NULL is no value.
    __table_args__ = (UniqueConstraint("owner", "idempotency_key"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str]
    idempotency_key: Mapped[str | None]
    body_hash: Mapped[str] = mapped_column(String(64))
    generation: Mapped[str]
    state: Mapped[str] = mapped_column(String(16), index=True)
    n_queries: Mapped[int]
    n_done: Mapped[int]
    n_problems: Mapped[int]
    error: Mapped[str | None]
    created_at: Mapped[int] = mapped_column(BigInteger)
    finished_at: Mapped[int | None] = mapped_column(BigInteger)
    shared: Mapped[bytes] = mapped_column(LargeBinary)


class JobChunkRow(Base):
    """Some queries of a batch, those from number ``first`` on, worked off together; done once it has results.

    Who works on it holds a lease: a random token, good until ``lease_until`` (milliseconds). The two large
    columns come last, so that SQLite reads the others without them.
    """

    __tablename__ = "job_chunks"

    job_id: Mapped[str] = mapped_column(ForeignKey(JobRow.id), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    first: Mapped[int]
    n_queries: Mapped[int]
    attempts: Mapped[int]
    done: Mapped[bool]
    lease: Mapped[str | None] = mapped_column(String(32))
    lease_until: Mapped[int | None] = mapped_column(BigInteger)
    queries: Mapped[bytes] = mapped_column(LargeBinary)
    results: Mapped[bytes | None] = mapped_column(LargeBinary)


class SavedQueryRow(Base):
    """A query that somebody keeps under a name: ``body`` is that of its request, as JSON in ASCII.

    Papers that were added after the change ``seen`` are new to its owner. ``n_feeds`` counts the feeds that
    were made of it; the last one is good while it ``has_feed``. Times as in ``KeyRow``.
    """

    __tablename__ = "saved_queries"
    __table_args__ = (UniqueConstraint("owner", "name"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str]
    name: Mapped[str]
    kind: Mapped[str] = mapped_column(String(16))
    since: Mapped[int] = mapped_column(BigInteger)
    seen: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[int] = mapped_column(BigInteger)
    seen_at: Mapped[int | None] = mapped_column(BigInteger)
    has_feed: Mapped[bool]
    n_feeds: Mapped[int]
    body: Mapped[str]


class ProfileRow(Base):
    """A named set of papers that somebody keeps: ``papers`` and ``conflicts`` are JSON lists of ids."""

    __tablename__ = "profiles"

    owner: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    papers: Mapped[str]
    conflicts: Mapped[str]
    quota: Mapped[int | None]
