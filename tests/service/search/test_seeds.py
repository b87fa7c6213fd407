"""Tests of seeds: their default weight, and the suggestions for an unknown one."""

import pytest

from models.errors import DeadlineError
from service.context import with_deadline
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed, UnresolvedSeed

KNOWN, OTHER = "demo:p03-m07", "demo:p00-m03"


def unknown(engine: SearchEngine, name: str) -> UnresolvedSeed:
    """Return the record of the only seed, which is unknown."""
    answer = engine.search(SearchQuery((Seed(name),), skip_unresolved=True))
    assert not answer.seeds
    (unresolved,) = answer.unresolved
    return unresolved


@pytest.mark.parametrize(("words", "offered"), [("A Pocket", ["demo:p00-m06"]), ("Are Few", [])])
def test_eight_characters_are_enough_of_a_title(
    plain_engine: SearchEngine, words: str, offered: list[str]
) -> None:
    """A part of a title gets suggestions if it has eight characters; a shorter one is in too many titles."""
    assert offered == [each.id for each in unknown(plain_engine, words).did_you_mean]


def test_a_mistyped_title_gets_its_paper_suggested(plain_engine: SearchEngine) -> None:
    """An unknown seed that is nearly the title of a paper gets that paper as the first suggestion."""
    mistyped = plain_engine.snapshot.paper(7).title.replace("e", "a", 1)
    record = unknown(plain_engine, mistyped)
    assert plain_engine.snapshot.paper(7).id == record.did_you_mean[0].id
    assert record.detail.startswith("No paper of this collection has this title, DOI or id;")


def test_a_seed_counts_once_unless_it_says_otherwise(plain_engine: SearchEngine) -> None:
    """A seed without a weight counts as much as one with weight 1."""
    answers = [
        plain_engine.search(SearchQuery((Seed(KNOWN), beside), limit=20)).results
        for beside in (Seed(OTHER), Seed(OTHER, weight=1.0), Seed(OTHER, weight=2.0))
    ]
    assert answers[0] == answers[1] != answers[2]


def test_seeds_are_looked_up_only_while_there_is_time(plain_engine: SearchEngine) -> None:
    """The look-up of seeds stops at the deadline, even if nothing has to be encoded."""
    with pytest.raises(DeadlineError):
        with_deadline(0, lambda: plain_engine.search(SearchQuery((Seed("nobody"),), skip_unresolved=True)))
