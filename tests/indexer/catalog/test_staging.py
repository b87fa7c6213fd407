"""Papers that wait in the catalog: nothing shows them, and those of a load that is given up leave no text."""

import dataclasses
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from sqlalchemy import Connection

from indexer.catalog.catalog import Catalog, Change
from indexer.content_hash import content_hash
from models.errors import InputError
from models.types import Paper, Sentence
from tests.support.builds import papers_in


@pytest.fixture
def catalog(catalog_place: str | Path) -> Iterator[Catalog]:
    """A catalog with two papers, ``a`` and ``b``."""
    with Catalog.open(catalog_place) as catalog:
        catalog.add([titled("a"), titled("b")])
        yield catalog


def titled(paper_id: str, title: str = "") -> Paper:
    """A paper of which only id and title matter."""
    return Paper(id=paper_id, title=title, abstract="One.", sentences=(Sentence("One.", 0, 4),))


def waiting(catalog: Catalog, load: str = "load") -> list[str]:
    """The ids of what is staged."""
    return [each.paper_id for each in catalog.staged(load)]


def known(catalog: Catalog, *papers: Paper) -> list[str]:
    """The ids of those whose text the catalog has."""
    return [paper.id for paper in catalog.versions(map(content_hash, papers))]


def test_staged_papers_do_not_show(catalog: Catalog) -> None:
    """They are read by their hashes, in their order, however often they are staged."""
    new = [titled(f"p{i}") for i in range(2_500)]
    for _ in range(2):
        for start in range(0, len(new), 1_000):
            catalog.stage("load", new[start : start + 1_000])
    assert (2, 1, {}) == (catalog.count(), catalog.last_change(), catalog.changed_since(1))
    assert ([paper.id for paper in new], 2_500) == (waiting(catalog), catalog.count_staged())
    assert [] == waiting(catalog, "another")
    assert ["p3"] == known(catalog, new[3])


def test_a_portion_is_published_in_one_change(catalog: Catalog) -> None:
    """Those up to a key become current, in place of older versions; the others go on waiting."""
    changed = titled("a", "Changed")
    catalog.stage("load", [changed, titled("c"), titled("d")])
    key = [each.key for each in catalog.staged("load")][1]
    assert Change(1, 2, n_changed=2, n_new=0) == catalog.publish("load", key)
    assert {"a": content_hash(changed), "c": content_hash(titled("c"))} == catalog.changed_since(1)
    assert ["d"] == waiting(catalog)
    assert Change(2, 3, n_changed=1, n_new=0) == catalog.publish("load", 2**31 - 1)
    assert (4, []) == (catalog.count(), waiting(catalog))
    assert Change(3, 3, n_changed=0, n_new=0) == catalog.publish("load", 2**31 - 1)


def test_a_load_may_replace_all(catalog: Catalog) -> None:
    """What it does not bring is deleted in the same change."""
    catalog.stage("load", [titled("b"), titled("c")])
    assert Change(1, 2, n_changed=2, n_new=0) == catalog.publish("load", 2**31 - 1, replace=True)
    assert ["b", "c"] == [*papers_in(catalog)]
    assert {"a": None, "c": content_hash(titled("c"))} == catalog.changed_since(1)


def test_a_load_that_is_given_up_leaves_no_text(catalog: Catalog) -> None:
    """What it alone brought goes; what a paper has, or had, and what another load has stays."""
    given = [titled("a"), titled("c"), titled("d"), titled("e")]
    catalog.stage("load", given)
    catalog.add([given[2]])
    catalog.delete(["d"])
    catalog.forget_loads(but="load")
    assert 4 == len(waiting(catalog))
    catalog.forget_loads(but="another")
    assert (0, ["a", "d"]) == (catalog.count_staged(), known(catalog, *given))
    assert catalog.restore({"d": content_hash(given[2])}).n_changed == 1
    assert ["a", "b", "d"] == [*papers_in(catalog)]


def test_others_write_while_a_load_is_given_up(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some papers a transaction, not all in one."""
    monkeypatch.setattr("indexer.catalog.staging.BATCH_PAPERS", 2)
    catalog.stage("load", [titled(f"p{i}") for i in range(5)])
    writing, n_transactions = catalog.database.writing, []

    def counted() -> AbstractContextManager[Connection]:
        n_transactions.append(catalog.count_staged())
        return writing()

    monkeypatch.setattr(catalog.database, "writing", counted)
    catalog.forget_loads(but="another")
    assert ([5, 3, 1], 0) == (n_transactions, catalog.count_staged())


def test_a_purge_takes_staged_text_too(catalog: Catalog) -> None:
    """Nothing of the paper waits any more; the others do."""
    catalog.stage("load", [titled("a", "New"), titled("c")])
    catalog.purge(["a"])
    assert ["c"] == waiting(catalog)
    catalog.purge(["c"])
    assert [] == waiting(catalog)
    assert [] == known(catalog, titled("a"), titled("a", "New"), titled("c"))


def test_what_cannot_be_stored_is_not_staged(catalog: Catalog) -> None:
    """As with papers that are added; of two versions of one paper the last is kept."""
    with pytest.raises(InputError, match="NUL"):
        catalog.stage("load", [titled("c"), titled("nul\0")])
    assert [] == waiting(catalog)
    last = dataclasses.replace(titled("c"), year=1611)
    catalog.stage("load", [titled("c"), last])
    assert [content_hash(last)] == [each.content_hash for each in catalog.staged("load")]
