"""Tests that an internal failure is logged in detail but reported to clients without details."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from models import errors
from models.errors import EncoderError, MissingPackageError, SnapshotError, StorageError
from service.api.public_details import public_detail
from service.web.address.refusals import in_words
from tests.support.clients import client_of
from tests.support.examples.pages import PAPER

INSIDE = "catalog db.internal:5433/papers: could not open /srv/secret/catalog.sqlite3"


def of_ours() -> Iterator[type[Exception]]:
    """Yield the classes of errors whose messages may name internal parts."""
    for each in vars(errors).values():
        if isinstance(each, type) and issubclass(each, StorageError | SnapshotError | EncoderError):
            yield each


@pytest.mark.parametrize("cls", list(of_ours()))
def test_no_error_names_what_is_inside(cls: type[errors.AkinError]) -> None:
    """No such error shows its internal details, not even a new one; a missing package is shown as it is."""
    assert "internal" not in public_detail(cls(INSIDE))
    assert "/srv" not in public_detail(cls(INSIDE))
    assert INSIDE == public_detail(MissingPackageError(INSIDE))


def test_a_page_names_nothing_either() -> None:
    """Pages use the same public text as answers."""
    assert public_detail(StorageError(INSIDE)) == in_words(StorageError(INSIDE))


def test_answers_name_nothing_and_the_log_does(hashed_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the database fails, the answer does not name it, but the log does."""

    def away(*_: object) -> None:
        raise StorageError(INSIDE)

    with client_of(hashed_data) as client, monkeypatch.context() as broken:
        broken.setattr("indexer.catalog.database.Database.reading", away)
        broken.setattr("indexer.catalog.database.Database.writing", away)
        with capture_logs() as logged:
            answer = client.post("/v1/batches", json={"seeds": [PAPER]})
    assert 503 == answer.status_code
    assert "internal" not in answer.text
    assert "/srv" not in answer.text
    assert INSIDE in {line.get("error") for line in logged}
