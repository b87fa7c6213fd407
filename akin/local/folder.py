"""An open data folder: its search engine, catalog and cursors."""

from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

import structlog
from pydantic import BaseModel, TypeAdapter, ValidationError

from akin.client.params import as_sent
from akin.client.responses.parsing import read_answer
from models.counts import counted
from models.errors import InputError
from service.api.schemas.writing import JSONAnswer
from service.cache.store import open_cache
from service.collection.cursors import Cursors
from service.collection.generations import Engines, open_engine
from service.collection.ingest import Ingest
from service.saved.saved_queries import SavedQueries
from service.search.engine import SearchEngine
from service.secret import secret_of_process
from service.settings import settings_of
from service.validation import faults_of, sentence, where

_Answer = TypeVar("_Answer")
_Body = TypeVar("_Body")


class OpenFolder:
    """The newest snapshot of the folder ``data``; use it in a ``with`` block, or ``close`` it."""

    def __init__(self, data: Path, *, device: str | None = None) -> None:
        self._settings = settings_of(data=data, device=device, ray="")  # one query is worth no cluster
        self._saved: SavedQueries | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._engine.snapshot)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self._settings.data)!r}: {counted(len(self), 'paper')}>"

    def close(self) -> None:
        """Close the files of the collection and the database of its catalog; using it opens them again."""
        if self._saved is not None:
            self._saved.close()
            self._saved = None
        if ingest := self.__dict__.pop("_ingest", None):
            ingest.close()
        self.__dict__.pop("_engines", None)

    @cached_property
    def _engines(self) -> Engines:
        _log_warnings_alone()
        cache = open_cache(self._settings)
        return Engines.of(self._settings, open_engine(self._settings, cache), cache)

    @cached_property
    def _ingest(self) -> Ingest:
        return Ingest(self._settings.data, self._settings.catalog, self._engines, keep=self._settings.keep)

    @cached_property
    def _cursors(self) -> Cursors:
        return Cursors(secret_of_process())

    @property
    def _engine(self) -> SearchEngine:
        """The engine of the snapshot served now."""
        self._engines.follow()
        return self._engines.current


def _log_warnings_alone() -> None:
    """Log only warnings in a program that has not configured structlog."""
    if not structlog.is_configured():
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))


def checked(adapter: TypeAdapter[_Body], body: dict[str, Any] | None, *, what: str = "The query") -> _Body:
    """Validate the body of a request as the service does; raises InputError, which names the field."""
    try:
        return adapter.validate_python(as_sent(body))
    except ValidationError as error:
        first = faults_of(error.errors(include_url=False))[0]
        place = where(first.loc)
        fault = sentence("" if place == "query" else place, first.said)
        raise InputError(f"{what} cannot be used: {fault}.") from error


def as_answer(kind: type[_Answer], out: BaseModel | JSONAnswer) -> _Answer:
    """Convert an answer of the service into the client's type."""
    content = out.content if isinstance(out, JSONAnswer) else out.model_dump_json().encode()
    return read_answer(kind, content)
