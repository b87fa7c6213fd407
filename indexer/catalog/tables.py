"""The tables of the catalog, the same in SQLite and PostgreSQL; ``migrations`` upgrades older ones."""

from sqlalchemy import JSON, BigInteger, ForeignKey, LargeBinary, MetaData, String, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """The base class of the catalog's tables; constraints get the same names in both databases."""

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
    __table_args__ = ({"sqlite_autoincrement": True},)  # a key is never reused

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
    """The current version of a paper, updated in place, while ``papers`` and ``sentences`` are not.

    No snapshot refers to these rows. Without a version, the paper is deleted. Transactions that change the
    collection are numbered: ``change`` is the last that changed this paper, ``added`` the one that added it,
    or added it again after a deletion or with the first text that is not in quarantine, and ``added_at`` the
    time of that in Unix seconds, UTC. A rollback leaves ``added`` of the papers that it restores, or lowers
    it to the change of the restored generation; ``added_at`` stays.
    """

    __tablename__ = "current_papers"

    paper_id: Mapped[str] = mapped_column(primary_key=True)
    paper_key: Mapped[int | None] = mapped_column(ForeignKey(PaperRow.key), unique=True)
    change: Mapped[int] = mapped_column(BigInteger, index=True)
    added: Mapped[int] = mapped_column(BigInteger)
    added_at: Mapped[int] = mapped_column(BigInteger)


class StagedRow(Base):
    """A version of a paper that waits to be published, and its ``load``.

    ``brought``: this load added the version and no paper has had it; it is removed if the load is given up.
    """

    __tablename__ = "staged_papers"

    paper_id: Mapped[str] = mapped_column(primary_key=True)
    paper_key: Mapped[int] = mapped_column(ForeignKey(PaperRow.key), index=True)
    load: Mapped[str] = mapped_column(String(64))
    brought: Mapped[bool]


class QuarantineRow(Base):
    """A version of a paper that ``models`` could not encode, and the reason.

    ``models`` is the ``Manifest.models_key`` of the collection's models; other models may encode the paper.
    """

    __tablename__ = "quarantine"

    paper_key: Mapped[int] = mapped_column(ForeignKey(PaperRow.key), primary_key=True)
    models: Mapped[str] = mapped_column(String(64), primary_key=True)
    reason: Mapped[str]


class IdentityRow(Base):
    """The identity of the catalog: one row with a random id, the same in every copy of the database."""

    __tablename__ = "identity"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)


class KeyRow(Base):
    """One API key, stored as the SHA-256 of its secret, never as the key; times are Unix seconds, UTC.

    Rows are never removed: a revoked key has ``revoked_at``.
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
    """One batch: its owner, the generation that answers it, and its progress; times as in ``KeyRow``.

    ``shared`` is the part that all its queries have in common, ``error`` the reason why it failed.
    """

    __tablename__ = "jobs"
    # Rows without a key do not violate this: NULLs are never equal.
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
    """A chunk of a batch: ``n_queries`` queries from number ``first``, run together; done if it has results.

    The worker of the chunk holds a lease: a random token, valid until ``lease_until`` (milliseconds). The two
    large columns come last, so that SQLite reads the others without them.
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
    """A query that its owner saved under a name; ``body`` is the body of its request, as JSON in ASCII.

    Papers added after the change ``seen`` are new to the owner. ``n_feeds`` counts the feeds made of the
    query; the last one is valid while it ``has_feed``. Times as in ``KeyRow``.
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
    """A named set of papers of one owner: ``papers`` and ``conflicts`` are JSON lists of ids or names."""

    __tablename__ = "profiles"

    owner: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    papers: Mapped[str]
    conflicts: Mapped[str]
    quota: Mapped[int | None]
