"""Tests of cursors and of the secret that signs them: intact ones are read, all others are refused."""

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError
from structlog.testing import capture_logs

from indexer.files.data_folder import SECRET_FILE
from models.errors import CursorError, StorageError
from models.transport import Scorer
from models.types import Facet, Filters, Paper, Sentence
from service.api.schemas.base import MAX_CURSOR_CHARS
from service.collection.cursors import Cursors
from service.search.aspect import Aspect, Contrast
from service.search.query import Page, SearchQuery, Seed, Window, windows
from service.secret import Secret, read_secret
from service.settings import Settings

CURSORS = Cursors(Secret(b"k" * 32, shared=True))
QUERY = SearchQuery((Seed("a/b"),), filters=Filters(exclude_ids=frozenset({"x", "y", "z"})))
COUNTS = st.integers(0, 2**32 - 1)


# The digest of a generation.
GENERATION = bytes(range(16))


@given(offset=COUNTS, depth=COUNTS)
def test_a_cursor_is_read_as_it_was_written(offset: int, depth: int) -> None:
    """A cursor is short and URL-safe, and reading it gives the page and generation that were written."""
    cursor = CURSORS.write(Page(offset, depth), QUERY, GENERATION)
    assert (Page(offset, depth), GENERATION) == CURSORS.read(cursor, QUERY)
    assert len(cursor) <= MAX_CURSOR_CHARS
    assert cursor.replace("-", "").replace("_", "").isalnum()


def test_cursors_of_before_are_read() -> None:
    """The same secret, search and place give the same cursor as before an upgrade."""
    assert CURSORS.write(Page(20, 400), QUERY, GENERATION) == (
        "CAABAgMEBQYHCAkKCwwNDg9GF1kj-pCWW3KsGDcWBgITAAAAFAAAAZAtNvYtdM_SekMu64B_rV1E"
    )


@given(data=st.data(), offset=st.integers(0, 10_000))
def test_an_altered_cursor_is_refused(data: st.DataObject, offset: int) -> None:
    """A cursor with characters replaced, added or removed anywhere is refused, however it decodes."""
    cursor = CURSORS.write(Page(offset, 200), QUERY, GENERATION)
    place = data.draw(st.integers(0, len(cursor)))
    length = data.draw(st.integers(0, 2))
    put = data.draw(st.text(max_size=2) | st.sampled_from(["=", "A", "+", "/", "\n"]))
    altered = cursor[:place] + put + cursor[place + length :]
    if altered != cursor:
        with pytest.raises(CursorError):
            CURSORS.read(altered, QUERY)


@given(st.text(max_size=120) | st.binary(max_size=80).map(lambda raw: raw.hex()))
def test_what_is_no_cursor_is_refused(text: str) -> None:
    """Any other text raises ``CursorError`` and nothing else."""
    with pytest.raises(CursorError):
        CURSORS.read(text, QUERY)


def test_another_secret_makes_other_cursors() -> None:
    """A cursor signed with one secret is refused under another."""
    cursor = CURSORS.write(Page(10, 200), QUERY, GENERATION)
    with pytest.raises(CursorError, match="AKIN_SECRET"):
        Cursors(Secret(b"j" * 32, shared=True)).read(cursor, QUERY)


PASTED = Paper("", "t", "One. Two.", (Sentence("One.", 0, 4), Sentence("Two.", 5, 9)))


@pytest.mark.parametrize(
    "other",
    [
        QUERY.of_paper("a/c"),
        replace(QUERY, seeds=(Seed(paper=PASTED),)),
        replace(QUERY, seeds=(Seed("a/b", aspect=Aspect(sentences=(0,))),)),
        replace(QUERY, seeds=(Seed("a/b", aspect=Aspect(facets=(Facet.METHOD,))),)),
        replace(QUERY, seeds=(Seed("a/b", aspect=Aspect(focus=0.5)),)),
        replace(
            QUERY,
            seeds=(
                Seed("a/b", aspect=Aspect(facets=(Facet.METHOD,), unlike=Contrast(facets=(Facet.RESULT,)))),
            ),
        ),
        replace(QUERY, filters=replace(QUERY.filters, exclude_ids=frozenset({"x", "y"}))),
        replace(QUERY, filters=replace(QUERY.filters, ids=frozenset({"x"}))),
        replace(QUERY, filters=replace(QUERY.filters, authors=("x",))),
        replace(QUERY, filters=replace(QUERY.filters, year_from=2000)),
        replace(QUERY, scorer=Scorer.SINGLE),
        replace(QUERY, tau=0.5),
    ],
)
def test_a_cursor_of_another_search_is_refused(other: SearchQuery) -> None:
    """A cursor is refused if anything in the search differs."""
    cursor = CURSORS.write(Page(10, 200), QUERY, GENERATION)
    with pytest.raises(CursorError, match="another search"):
        CURSORS.read(cursor, other)


class SameHash(str):
    """A string with a constant hash, so that sets keep their order of insertion, as if in another process."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 7


def test_limit_place_and_order_of_ids_do_not_matter() -> None:
    """A cursor fits the same search with another limit, page or order of ids in a filter."""
    x, y = SameHash("x"), SameHash("y")
    orders = [frozenset([x, y]), frozenset([y, x])]
    assert list(orders[0]) != list(orders[1])
    first, other = (replace(QUERY, filters=Filters(ids=ids)) for ids in orders)
    cursor = CURSORS.write(Page(10, 200), first, GENERATION)
    page, _ = CURSORS.read(cursor, replace(other, limit=77, page=Page(5, 5)))
    assert Page(10, 200) == page


@pytest.mark.parametrize("paper_id", ["\ud800", "\0", "🙂"])
def test_any_text_can_be_digested(paper_id: str) -> None:
    """A lone surrogate in an id and a number of hundreds of digits can be digested."""
    query = replace(QUERY, seeds=(Seed(paper_id, aspect=Aspect(sentences=(10**400,))),))
    page, _ = CURSORS.read(CURSORS.write(Page(1, 2), query, GENERATION), query)
    assert Page(1, 2) == page


@given(offset=st.integers(0, 5_000), n_papers=st.integers(1, 300), depth=st.integers(1, 700))
def test_stretches_cover_a_page_once(offset: int, n_papers: int, depth: int) -> None:
    """The parts of all windows, put together, are exactly the page."""
    shown = [
        window.start + number
        for window in windows(Page(offset, depth), offset + n_papers)
        for number in range(window.skip, window.skip + window.limit)
    ]
    assert list(range(offset, offset + n_papers)) == shown


def test_a_page_across_two_stretches_takes_from_both() -> None:
    """A page across two windows has the end of the first and the start of the second."""
    assert [Window(0, 200, 190, 10), Window(200, 400, 0, 90)] == list(windows(Page(190, 200), 290))


def test_a_secret_is_made_once_and_kept(tmp_path: Path) -> None:
    """Concurrent and later starts all get one secret, in a file that only its owner may read."""
    with ThreadPoolExecutor(16) as pool:
        secrets = list(pool.map(lambda _: read_secret(tmp_path), range(64)))
    assert {read_secret(tmp_path).key} == {secret.key for secret in secrets}
    assert all(secret.shared for secret in secrets)
    assert 0o600 == stat.S_IMODE((tmp_path / SECRET_FILE).stat().st_mode)
    assert [SECRET_FILE] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_folder_that_keeps_nothing_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Over a read-only folder each start makes another secret, and the log warns what that means."""

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("service.secret.os.open", refuse)
    with capture_logs() as logs:
        first, second = read_secret(tmp_path), read_secret(tmp_path)
    assert (False, False, True) == (first.shared, second.shared, first.key != second.key)
    assert "AKIN_SECRET" in logs[0]["effect"]
    assert "warning" == logs[0]["log_level"]


def test_a_secret_kept_in_a_read_only_folder_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An existing secret is used without writing to the folder."""
    made = read_secret(tmp_path)
    monkeypatch.setattr("service.secret.os.open", lambda *_: pytest.fail("nothing is to be written"))
    assert made.key == read_secret(tmp_path).key


def test_a_chosen_goes_first_and_never_shows(tmp_path: Path) -> None:
    """AKIN_SECRET creates no file, and is shown neither by the secret nor by the settings."""
    chosen = "correct horse battery staple, twice"
    given_settings = Settings(data=tmp_path, secret=SecretStr(chosen))
    secret = read_secret(given_settings.data, given_settings.secret)
    assert (chosen.encode(), []) == (secret.key, list(tmp_path.iterdir()))
    assert chosen not in repr(secret) + repr(given_settings)


def test_a_secret_too_short_is_refused_unseen() -> None:
    """A secret of fewer than 32 characters is refused by an error that does not repeat it."""
    with pytest.raises(ValidationError) as refused:
        Settings(secret=SecretStr("hunter2"))
    assert "hunter2" not in str(refused.value)


def test_a_damaged_secret_is_named(tmp_path: Path) -> None:
    """A truncated secret file raises ``StorageError`` with the remedy."""
    (tmp_path / SECRET_FILE).write_bytes(b"short")
    with pytest.raises(StorageError, match="remove it"):
        read_secret(tmp_path)
