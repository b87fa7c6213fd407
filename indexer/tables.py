"""The tables of the catalog, the same in SQLite and PostgreSQL; ``indexer/migrations`` builds them."""

from sqlalchemy import JSON, BigInteger, ForeignKey, MetaData, String
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
    """One version of a paper; ``folded_title`` is what ``find_title`` compares."""

    __tablename__ = "papers"
    __table_args__ = ({"sqlite_autoincrement": True},)  # a key that was given once is never given again

    key: Mapped[int] = mapped_column(primary_key=True)
    paper_id: Mapped[str] = mapped_column(index=True)
    content_hash: Mapped[str] = mapped_column(String(64), unique=True)
    title: Mapped[str]
    folded_title: Mapped[str]
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
    the last of them that this paper was in.
    """

    __tablename__ = "current_papers"

    paper_id: Mapped[str] = mapped_column(primary_key=True)
    paper_key: Mapped[int | None] = mapped_column(ForeignKey(PaperRow.key), unique=True)
    change: Mapped[int] = mapped_column(BigInteger, index=True)


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
