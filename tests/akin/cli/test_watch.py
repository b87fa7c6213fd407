"""Tests of `akin watch`: new papers of saved queries, for a folder and for a running service."""

import json
import re
from pathlib import Path

import httpx
import pytest

import akin
from indexer.files.data_folder import CATALOG_FILE
from indexer.snapshot.folder import current_generation
from indexer.snapshot.snapshot import Snapshot
from models.errors import SavedQueryNotFoundError
from service.saved import news
from service.saved.saved_queries import NewSavedQuery, SavedQueries
from tests.support.builds import add_papers
from tests.support.commands import flat, run
from tests.support.servers.patience import soon


def test_a_search_is_saved_and_watched(data: Path, address: str) -> None:
    """A folder and a service report the new papers of a saved query until it is marked as seen."""
    assert "There is no saved query" in run("watch", "--data", data)
    assert "Saved as 'whales'." in run("search", "--data", data, "--text", "whales sing", "--save", "whales")
    run("search", "--data", data, "--text", "graphs", "--save", "graphs")
    assert "whales: nothing new since" in run("watch", "whales", "--data", data)
    add_papers(data, ("w/1", "Songs of whales", "Whales sing songs."), ("z/1", "Zyx qwv", "Plm okn ijb."))
    shown = run("watch", "whales", "--data", data)
    assert "whales: 1 of 2 papers added since" in shown
    assert re.search(r"1\. Songs of whales  -\d\.\d{4}  \w+ match\n +w/1", shown)
    assert "graphs" not in shown
    both = run("watch", "--data", data, "--weak")
    assert "whales: 2 of 2 papers" in both
    assert "graphs: 2 of 2 papers" in both
    lines = run("watch", "--url", address, "--json").splitlines()
    read = [json.loads(line) for line in lines if line.startswith("{")]
    of_service = [each for each in read if "name" in each]  # without the log lines of the service
    assert ["graphs", "whales"] == [each["name"] for each in of_service]
    lines = run("watch", "whales", "--data", data, "--json", "--seen", "--limit", "1").splitlines()
    (marked,) = (each for each in map(json.loads, lines) if "name" in each)  # the service may still log
    assert (["w/1"], 2) == ([each["paper"]["id"] for each in marked["results"]], marked["added"])
    assert "whales: nothing new since" in run("watch", "whales", "--data", data)
    assert "there are: 'graphs', 'whales'" in run("watch", "nope", "--data", data, status=1)
    assert "Name the saved queries" in run("watch", "--forget", "--data", data, status=1)
    refused = run("watch", "whales", "--forget", "--seen", "--data", data, status=1)
    assert "--forget shows nothing; it cannot be combined with --seen" in flat(refused)
    assert "Deleted 'whales'." in run("watch", "whales", "--forget", "--data", data)
    assert "whales" not in run("watch", "--data", data)


def test_papers_that_were_not_shown_are_not_marked_as_seen(data: Path) -> None:
    """`watch --seen` leaves all papers new if more match than were shown, and says how to show them."""
    run("search", "--data", data, "--text", "whales sing", "--save", "whales")
    add_papers(
        data, *((f"s/{number}", f"Songs of whales {number}", "Whales sing songs.") for number in range(5))
    )
    shown = run("watch", "--data", data, "--limit", "3", "--seen")
    assert "2 more papers match; show all of them with --limit 5." in shown
    assert "'whales' was not marked as seen: 2 more papers match" in shown
    assert "3 of 5 papers" in run("watch", "--data", data, "--limit", "3")
    assert "was not marked" not in run("watch", "--data", data, "--limit", "5", "--seen")
    assert "nothing new" in run("watch", "--data", data)


def test_papers_beyond_the_longest_list_are_not_marked_as_seen(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`watch --seen` leaves all papers new if more match than any list shows."""
    run("search", "--data", data, "--text", "whales sing", "--save", "whales")
    add_papers(
        data, *((f"s/{number}", f"Songs of whales {number}", "Whales sing songs.") for number in range(5))
    )
    with monkeypatch.context() as patched:
        patched.setattr(news, "MAX_NEWS", 3)
        shown = flat(run("watch", "--data", data, "--limit", "3", "--seen"))
        assert "was not marked as seen: more papers match than a list can have" in shown
    assert "5 of 5 papers" in run("watch", "--data", data)


def test_weak_matches_are_not_marked_as_seen_if_nothing_else_is_new(data: Path) -> None:
    """`watch --seen` leaves papers new if none of them was shown, and says that --weak shows them."""
    run("search", "--data", data, "--text", "whales sing", "--save", "whales")
    add_papers(data, ("z/1", "Zyx qwv", "Plm okn ijb."))
    shown = flat(run("watch", "--data", data, "--seen"))
    assert "whales: 0 of 1 paper" in shown
    assert "All of them are hardly related; --weak shows them." in shown
    assert "was not marked as seen: no new paper was shown; --weak shows them." in shown
    assert "Zyx qwv" in run("watch", "--data", data, "--weak", "--seen")
    assert "nothing new" in run("watch", "--data", data, "--weak")


def test_nothing_is_marked_while_a_part_of_the_collection_is_away(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`watch --seen` marks nothing as seen while a part of the collection cannot be searched."""
    run("search", "--data", data, "--text", "whales sing", "--save", "whales")
    add_papers(data, ("w/1", "Songs of whales", "Whales sing songs."))
    with monkeypatch.context() as patched:
        patched.setattr(Snapshot, "away", property(lambda snapshot: {len(snapshot.segments) - 1}))
        shown = run("watch", "--data", data, "--seen")
        assert "was not marked as seen: a part of the collection could not be searched" in shown
    assert "1 of 1 paper added" in run("watch", "--data", data)


def test_nothing_is_marked_while_no_seed_can_be_used(data: Path) -> None:
    """`watch --seen` marks nothing as seen while the paper that the search starts from is deleted."""
    add_papers(data, ("w/1", "Songs of whales", "Whales sing songs."))
    run("search", "--data", data, "--paper", "w/1", "--save", "whales")
    run("delete", "w/1", "--data", data)
    add_papers(data, ("w/2", "Songs of whales again", "Whales sing songs."))
    shown = flat(run("watch", "--data", data, "--seen"))
    assert 1 == shown.count("was not marked as seen: none of its seeds can be used; add them")
    assert 2 == shown.count("of the seeds can be used") + shown.count("of its seeds can be used")
    add_papers(data, ("w/1", "Songs of whales", "Whales sing songs."))
    assert "Songs of whales again" in run("watch", "--data", data)


def test_only_its_key_marks_a_saved_query_as_seen(data: Path) -> None:
    """`watch --data --seen` shows the new papers of a key's query, but marks only queries without a key."""
    with SavedQueries.open_existing(data / CATALOG_FILE) as saved, akin.open(data) as collection:
        body = '{"query":{"text":"whales sing"}}'
        of_key = saved.save(NewSavedQuery("k1", "of a key", "search", body, 1))[0].summary
        collection.save_query("of none", search={"text": "whales sing"})
        add_papers(data, ("w/1", "Songs of whales", "Whales sing songs."))
        shown = flat(run("watch", "--data", data, "--seen"))
        assert "'of a key' was not marked as seen: only key k1, which saved it, can mark it" in shown
        assert of_key == saved.get(of_key.id, owner="k1").summary
        again = run("watch", "--data", data)
        assert "of a key: 1 of 1 paper added since" in again
        assert "of none: nothing new since" in again
        with pytest.raises(SavedQueryNotFoundError, match="saved with another key"):
            collection.mark_seen(of_key.id, 1)


def test_a_name_that_several_have_deletes_nothing(data: Path) -> None:
    """Deleting by an ambiguous name is refused with the ids and owners; an id deletes one query."""
    with SavedQueries.open_existing(data / CATALOG_FILE) as saved:
        body = '{"query":{"text":"whales"}}'
        of_key, of_none = (
            saved.save(NewSavedQuery(owner, "whales", "search", body, 1))[0].summary.id
            for owner in ("k1", "")
        )
    refused = run("watch", "whales", "--forget", "--data", data, status=1)
    assert "2 saved queries have the name 'whales'; nothing was deleted" in flat(refused)
    assert f"{of_key} (of key k1)" in flat(refused)
    assert f"{of_none} (saved without a key)" in flat(refused)
    assert "Deleted 'whales'." in run("watch", of_key, "--forget", "--data", data)
    with SavedQueries.open_existing(data / CATALOG_FILE) as saved:
        assert [of_none] == [each.id for each in saved.all(owner=None)]
    assert "Deleted 'whales'." in run("watch", "whales", "--forget", "--data", data)


def test_a_search_that_fails_is_not_saved_beside_that_of_a_key(data: Path) -> None:
    """A failed search is not saved under a name that a key's query has, so the corrected one can be."""
    with SavedQueries.open_existing(data / CATALOG_FILE) as saved:
        saved.save(NewSavedQuery("k1", "whales", "search", '{"query":{"text":"whales"}}', 1))
    run("search", "--paper", "nobody", "--data", data, "--save", "whales", status=1)
    with SavedQueries.open_existing(data / CATALOG_FILE) as saved:
        assert ["k1"] == [each.owner for each in saved.all(owner=None)]
    assert "Saved as 'whales'." in run("search", "--text", "whales sing", "--data", data, "--save", "whales")


def test_a_query_that_cannot_be_answered_hides_no_other(data: Path, address: str) -> None:
    """If one saved query cannot be answered, the others are shown, and the status is 1; so with a service."""
    with akin.open(data) as collection:
        both = {"seeds": ["w/1"], "negatives": ["w/1"]}
        collection.save_query("a", recommendations=both)  # w/1 is not there yet
        collection.save_query("b", search={"text": "whales sing"})
    add_papers(data, ("w/1", "Songs of whales", "Whales sing songs."))
    soon(lambda: httpx.get(f"{address}/readyz").json()["generation"] == current_generation(data))
    for where in (("--data", data), ("--url", address)):
        shown = flat(run("watch", *where, status=1))
        assert "'a' cannot be answered: 'w/1' is both" in shown
        assert "b: 1 of 1 paper added since" in shown


@pytest.mark.parametrize("command", [("search", "--text"), ("recommend", "--text")])
def test_a_long_list_is_saved_too(data: Path, command: tuple[str, ...]) -> None:
    """A query with more results than a page holds is saved with a full page, unless its name is taken."""
    shown = run(*command, "whales sing", "--data", data, "--limit", "150", "--save", "whales")
    assert "Saved as 'whales'." in shown
    assert " 1. " in shown
    assert "nothing new" in run("watch", "--data", data)
    again = (*command, "taxes", "--data", data, "--limit", "2", "--save", "whales", "--output", "titles")
    refused = run(*again, status=1)
    assert "Another query is saved under this name" in flat(refused)
    assert " 2. " not in refused  # it is not searched for
