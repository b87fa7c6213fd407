"""Tests of stored queries in SQLite and PostgreSQL: names, limits, added papers and feeds."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from indexer.catalog.catalog import Catalog
from indexer.catalog.migrations import migrate, scripts
from indexer.catalog.quarantine import QuarantinedPaper
from models.errors import (
    InputError,
    KeyRefusedError,
    QueryError,
    SavedQueryConflictError,
    SavedQueryNotFoundError,
)
from models.types import Paper, Sentence
from service.access.api_keys import Keys, Scope
from service.access.feeds import FeedOf, FeedTokens
from service.saved.saved_queries import NewSavedQuery, SavedQueries
from service.secret import Secret

NEW = NewSavedQuery("me", "floods", "search", '{"query":{"paper_id":"a"}}', 0)


def paper(paper_id: str, title: str = "", abstract: str = "One.") -> Paper:
    """Return a paper of one sentence."""
    return Paper(paper_id, title, abstract, (Sentence(abstract, 0, len(abstract)),))


@pytest.fixture
def saved(catalog_place: str | Path) -> Iterator[SavedQueries]:
    """Yield the saved queries of an empty catalog."""
    with SavedQueries.open(catalog_place) as saved:
        yield saved


@pytest.fixture
def catalog(catalog_place: str | Path) -> Iterator[Catalog]:
    """Yield the same catalog."""
    with Catalog.open(catalog_place) as catalog:
        yield catalog


def added(saved: SavedQueries, change: int) -> list[tuple[str, int]]:
    """Return the papers added after a change, each with its change."""
    return [(each.paper_id, each.change) for each in saved.added(change)]


def test_what_counts_as_added(saved: SavedQueries, catalog: Catalog) -> None:
    """A paper counts as added if it is new or returns, but not if it is replaced, deleted or repeated."""
    catalog.add([paper("a"), paper("b"), paper("c")])
    mark = catalog.last_change()
    catalog.add([paper("a", "A new title"), paper("d"), paper("e")])
    catalog.add([paper("b"), paper("d")])
    assert [("d", 2), ("e", 2)] == added(saved, mark)
    catalog.delete(["b", "e", "never there"])
    assert [("d", 2)] == added(saved, mark)
    catalog.add([paper("b"), paper("never there")])
    assert [("b", 4), ("never there", 4), ("d", 2)] == added(saved, mark)
    assert [] == added(saved, catalog.last_change())


def test_a_paper_counts_as_added_when_its_text_is_mended(saved: SavedQueries, catalog: Catalog) -> None:
    """A paper that no one has found because of the quarantine is added once corrected; a shown one is not."""
    catalog.add([paper("a"), paper("shown")])
    catalog.add([paper("shown", "A title that cannot be encoded")])
    mark = catalog.last_change()
    for title in ("", "Also bad"):
        hashes = catalog.current_hashes(["a", "shown"])
        catalog.note_encoding("m" * 64, [], [QuarantinedPaper(*each, "bad") for each in hashes.items()])
        catalog.add([paper("a", f"{title}."), paper("shown", title)])
    assert [("a", 4)] == added(saved, mark)
    catalog.add([paper("a", "A better title")])
    assert [] == added(saved, 4)


def test_what_was_staged_counts_when_it_is_published(saved: SavedQueries, catalog: Catalog) -> None:
    """Staged papers count as added when they are published, even if others were seen meanwhile."""
    catalog.stage("load", [paper("a"), paper("b")])
    catalog.add([paper("c")])
    mark = catalog.last_change()
    last = max(version.key for version in catalog.staged("load"))
    catalog.publish("load", last, replace=True)
    assert [("a", 2), ("b", 2)] == added(saved, mark)


def test_what_a_rollback_restores_does_not_count_as_added(saved: SavedQueries, catalog: Catalog) -> None:
    """Papers that were there at the change restored count as added by then, also those added again since."""
    catalog.add([paper("a"), paper("b"), paper("c")])
    catalog.add([paper("later")])
    hashes = catalog.current_hashes(["a", "b", "later"])
    catalog.delete(["a", "b", "later"])
    catalog.add([paper("b")])
    catalog.restore(hashes, at=2)
    assert [("b", 2), ("later", 2)] == added(saved, 1)
    assert [] == added(saved, 2)
    catalog.add([paper("d")])
    assert [("d", 6)] == added(saved, 2)


def test_when_a_paper_came_is_kept(catalog_place: str | Path, catalog: Catalog) -> None:
    """The catalog keeps when a paper was added, so that older papers can be left out."""
    catalog.add([paper("a")])
    with SavedQueries(catalog.database) as saved:
        came_at = saved.added(0)[0].added_at
    for later, expected in ((9, 1), (11, 0)):
        with SavedQueries(catalog.database, clock=lambda at=came_at + later: at) as saved:  # type: ignore[misc]  # a default
            assert expected == len(saved.added(0, within_s=10))


def test_a_query_is_there_once(saved: SavedQueries) -> None:
    """An equal query is saved once, and another query of the owner cannot have its name."""
    first, is_new = saved.save(NEW)
    assert is_new
    assert (first, False) == saved.save(replace(NEW, change=7))
    with pytest.raises(SavedQueryConflictError, match=first.summary.id):
        saved.save(replace(NEW, body="{}"))
    with pytest.raises(SavedQueryConflictError):
        saved.save(replace(NEW, kind="recommendations"))
    assert saved.save(replace(NEW, owner="you"))[1]
    assert ["floods"] == [summary.name for summary in saved.all(owner="me")]
    assert 2 == len(saved.all(owner=None))


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\0", "\ud800", "x" * 101])
def test_a_name_can_be_shown(saved: SavedQueries, name: str) -> None:
    """A name that is blank, too long or not printable is refused with the name of the field."""
    with pytest.raises(InputError, match="name: "):
        saved.save(replace(NEW, name=name))


def test_one_keeps_a_bounded_number(catalog_place: str | Path, catalog: Catalog) -> None:
    """At the maximum a new query is refused, while existing ones are found and other owners are free."""
    with SavedQueries(catalog.database, most_of_owner=2) as saved:
        saved.save(NEW)
        saved.save(replace(NEW, name="b"))
        with pytest.raises(SavedQueryConflictError, match="2 queries are saved already"):
            saved.save(replace(NEW, name="c"))
        assert not saved.save(NEW)[1]
        assert saved.save(replace(NEW, owner="you"))[1]


def test_nobody_sees_what_is_anothers(saved: SavedQueries) -> None:
    """A query of another owner is not found, `None` as owner finds all, and deletion is permanent."""
    key = saved.save(NEW)[0].summary.id
    for wrong in (key, "x" * 22, "", "a\0b", "../x", key + "\n"):
        with pytest.raises(SavedQueryNotFoundError):
            saved.get(wrong, owner="you")
        with pytest.raises(SavedQueryNotFoundError):
            saved.mark_seen(wrong, 0, owner="you")
        with pytest.raises(SavedQueryNotFoundError):
            saved.open_feed(wrong, owner="you")
        saved.remove(wrong, owner="you")
    assert key == saved.get(key, owner="me").summary.id == saved.get(key, owner=None).summary.id
    saved.remove(key, owner="me")
    saved.remove(key, owner="me")
    assert [] == saved.all(owner=None)


def test_what_was_seen_is_not_new_again(saved: SavedQueries, catalog: Catalog) -> None:
    """The mark only moves forward, and not beyond the last change."""
    catalog.add([paper("a")])
    catalog.add([paper("b")])
    key = saved.save(NEW)[0].summary.id
    assert None is saved.get(key, owner="me").summary.seen_at
    for up_to, seen in ((1, 1), (2, 2), (1, 2), (2, 2)):
        marked = saved.mark_seen(key, up_to, owner="me")
        assert (seen, True) == (marked.seen, marked.seen_at is not None)
    with pytest.raises(QueryError, match="up_to must be the number of a change of the collection, up to 2"):
        saved.mark_seen(key, 3, owner="me")


def test_a_feed_is_good_until_it_is_revoked(saved: SavedQueries) -> None:
    """Opening a feed twice gives one feed, and a closed feed's number is never valid again."""
    key = saved.save(NEW)[0].summary.id
    with pytest.raises(SavedQueryNotFoundError):
        saved.of_feed(key, 0)
    assert saved.open_feed(key, owner="me") == saved.open_feed(key, owner="me")
    assert key == saved.of_feed(key, 1).summary.id
    saved.close_feed(key, owner="me")
    saved.close_feed(key, owner="me")
    with pytest.raises(SavedQueryNotFoundError):
        saved.of_feed(key, 1)
    saved.open_feed(key, owner="me")
    assert key == saved.of_feed(key, 2).summary.id
    for wrong in (0, 1, 3, 2**32 - 1):
        with pytest.raises(SavedQueryNotFoundError):
            saved.of_feed(key, wrong)


def test_a_revoked_key_saves_no_query_and_opens_no_feed(catalog_place: str | Path) -> None:
    """A service accepts a key for up to a second after it was revoked, and nothing of it stays."""
    with Keys.open(catalog_place) as keys, SavedQueries.open(catalog_place) as saved:
        own = keys.create("a", scope=Scope.INGEST, expires_days=1).key.id
        kept, _ = saved.save(replace(NEW, owner=own))
        keys.revoke(own)
        with pytest.raises(KeyRefusedError, match="was revoked"):
            saved.save(replace(NEW, owner=own, name="later"))
        for owner in (own, None):  # an admin sees the queries of all
            with pytest.raises(KeyRefusedError, match="was revoked"):
                saved.open_feed(kept.summary.id, owner=owner)
        assert not saved.get(kept.summary.id, owner=None).summary.has_feed


def test_a_token_is_good_as_it_was_given_out_alone(saved: SavedQueries) -> None:
    """A token is valid only unchanged and under the same secret, and stays valid after an upgrade."""
    feed = FeedOf(saved.save(NEW)[0].summary.id, 3)
    tokens = FeedTokens(Secret(b"x" * 32, shared=True))
    of_before = "AAAAAAAAAAAAAAAAAAAAAAAAAAFuw02K0pm417ZFPnMrsBlH3Cix"
    assert of_before == tokens.write(FeedOf("A" * 22, 1))
    token = tokens.write(feed)
    assert feed == tokens.read(token)
    assert 52 == len(token)
    others = [FeedTokens(Secret(b"y" * 32, shared=True)).write(feed)]
    others += [
        token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :] for place in range(52)
    ]
    for wrong in (*others, "", "é", token[:-4], token + "AAAA", token + "\n", token[:-1], f" {token}"):
        with pytest.raises(SavedQueryNotFoundError):
            tokens.read(wrong)


@pytest.mark.parametrize(
    ("body", "stays"),
    [
        ({"query": {"abstract": "They said: THE ice of\n\nGreenland melts   fast. So we go."}}, False),
        ({"query": {"abstract": ["We saw it.", "The ice of Greenland", "melts fast."]}}, False),
        ({"seeds": ["b", {"text": "the ice of greenland melts fast."}]}, False),
        ({"query": {"paper_id": "On Ice"}}, False),
        ({"query": {"text": "as in The Ice  Sheets of Greenland, but for rivers"}}, False),
        ({"query": {"text": "as in on ice, but for rivers"}}, True),
        ({"query": {"paper_id": "a"}, "filters": {"venues": ["Ice"]}}, True),
        ({"query": {"text": "does the ice of Greenland melt?"}}, True),
    ],
)
def test_a_purge_takes_the_queries_that_hold_the_text(
    saved: SavedQueries, catalog: Catalog, body: dict[str, object], *, stays: bool
) -> None:
    """A purge removes queries that contain a sentence or title of the paper, short titles only as a whole."""
    saved.save(replace(NEW, body=json.dumps(body)))
    catalog.add([paper("a", "The ice sheets of Greenland", "We melt.")])
    catalog.add([paper("a", "On ice", "The ice of Greenland melts fast."), paper("b")])
    assert not catalog.purge(["b"]).n_queries
    assert (0 if stays else 1) == catalog.purge(["a"]).n_queries
    assert stays == bool(saved.all(owner=None))


def test_a_purge_takes_the_queries_named_after_a_paper(saved: SavedQueries, catalog: Catalog) -> None:
    """A purge removes queries with the title in their name, a short title only if it is the whole name."""
    catalog.add([paper("a", "The ice sheets of Greenland"), paper("b", "Ice")])
    for name in ("As the ICE sheets of Greenland", "ice", "more ice"):
        saved.save(replace(NEW, name=name))
    assert 2 == catalog.purge(["a", "b"]).n_queries
    assert ["more ice"] == [each.name for each in saved.all(owner=None)]


def test_papers_of_an_older_catalog_are_no_news(catalog_place: str | Path) -> None:
    """After a migration, papers count as added at their last change."""
    with Catalog.open(catalog_place) as catalog:
        catalog.add([paper("a")])
        catalog.add([paper("b")])
        with catalog.database.writing() as connection:
            scripts.downgrade(connection, "0007")
            assert "added" not in dict(
                connection.execute(text("SELECT * FROM current_papers WHERE paper_id = 'a'")).one()._mapping
            )
    assert "0007" == migrate(catalog_place)
    with SavedQueries.open(catalog_place) as saved:
        assert [("b", 2)] == added(saved, 1)
        assert saved.added(0, within_s=600)


def test_no_id_looks_like_an_option(saved: SavedQueries, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id never begins with a hyphen, which `akin watch ID` would take for an option."""
    drawn = iter(["-MDEyMzQ1Njc4OWFiY2Rl", "-DEyMzQ1Njc4OWFiY2RlZ", "MDEyMzQ1Njc4OWFiY2RlZg"])
    monkeypatch.setattr("service.saved.saved_queries.secrets.token_urlsafe", lambda _: next(drawn))
    assert "MDEyMzQ1Njc4OWFiY2RlZg" == saved.save(NEW)[0].summary.id
