"""What the catalog, keys and jobs share: rows of one database, opened and closed."""

from pathlib import Path
from types import TracebackType
from typing import TypeVar

from indexer.catalog import migrations
from indexer.catalog.database import Database, expect_existing

# Not Self: the tests' type checker knows none in methods.
_Opened = TypeVar("_Opened", bound="Store")


class Store:
    """Rows of one database; open it with ``open`` and close it, or use it in a ``with`` block."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls: type[_Opened], url_or_path: str | Path) -> _Opened:  # noqa: PYI019 - see above
        """Opens it, creating the database where there is none; several processes may do so at once.

        Args:
            url_or_path: a path of a SQLite file, or a URL ``sqlite:///...`` or ``postgresql://...``.

        Raises:
            InputError: a URL of another kind of database, or none at all.
            MissingPackageError: PostgreSQL without its driver.
            StorageError: it cannot be opened, or another version of Akin wrote it (``akin migrate``).
        """
        return cls(migrations.open_database(url_or_path))

    @classmethod
    def open_existing(cls: type[_Opened], url_or_path: str | Path) -> _Opened:  # noqa: PYI019 - see above
        """The same, but where the file of SQLite is not there none is made: raises StorageError."""
        expect_existing(url_or_path)
        return cls.open(url_or_path)

    def close(self) -> None:
        """Closes every connection to the database."""
        self._database.close()

    def __enter__(self: _Opened) -> _Opened:  # noqa: PYI019 - see above
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
