"""The base class of the catalog, keys and jobs: a database that is opened and closed."""

from pathlib import Path
from typing import TypeVar

from indexer.catalog import migrations
from indexer.catalog.database import BUSY_TIMEOUT_S, Database, expect_existing
from indexer.files.data_folder import DataFolder

# Not Self: the type checker of the tests does not support it in methods.
_Opened = TypeVar("_Opened", bound="Store")


def database_of(data: Path, url_or_path: str | Path) -> Database:
    """Open the database of a data folder; it is only made if the folder has no collection yet.

    Raises what ``open_database`` raises, and StorageError if the SQLite file of a collection does not exist.
    """
    if DataFolder(data).has_collection:
        expect_existing(url_or_path)
    return migrations.open_database(url_or_path)


class Store:
    """Rows of one ``database``; open it with ``open`` and close it, or use it in a ``with`` block."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    def open(  # noqa: PYI019 - see above
        cls: type[_Opened], url_or_path: str | Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S
    ) -> _Opened:
        """Open the database, or make it, with ``open_database``; raises what ``open_database`` raises."""
        return cls(migrations.open_database(url_or_path, busy_timeout_s=busy_timeout_s))

    @classmethod
    def open_existing(cls: type[_Opened], url_or_path: str | Path) -> _Opened:  # noqa: PYI019 - see above
        """The same as ``open``, but raises StorageError if the SQLite file does not exist."""
        expect_existing(url_or_path)
        return cls.open(url_or_path)

    @classmethod
    def open_of(cls: type[_Opened], data: Path, url_or_path: str | Path) -> _Opened:  # noqa: PYI019 - see above
        """Open with ``database_of``."""
        return cls(database_of(data, url_or_path))

    def close(self) -> None:
        """Close every connection to the database."""
        self.database.close()

    def __enter__(self: _Opened) -> _Opened:  # noqa: PYI019 - see above
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
