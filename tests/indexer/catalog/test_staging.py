"""Papers staged in the catalog are not shown, and a load that is given up leaves no text behind."""

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
    """Yield a catalog with two papers, ``a`` and ``b``."""
    with Catalog.open(catalog_place) as catalog:
        catalog.add([titled("a"), titled("b")])
        yield catalog


def titled(paper_id: str, title: str = "") -> Paper:
    """Return a paper of which only the id and the title matter."""
    return Paper(id=paper_id, title=title, abstract="One.", sentences=(Sentence("One.", 0, 4),))


def waiting(catalog: Catalog, load: str = "load") -> list[str]:
    """Return the ids of the staged papers."""
    return [each.paper_id for each in catalog.staged(load)]


def known(catalog: Catalog, *papers: Paper) -> list[str]:
    """Return the ids of the papers whose text is in the catalog."""
    return [paper.id for paper in catalog.versions(map(content_hash, papers))]


def test_staged_papers_do_not_show(catalog: Catalog) -> None:
    """Staged papers are not current; they are listed once, in order, and read by their hashes."""
    new = [titled(f"p{i}") for i in range(2_500)]
    for _ in range(2):
        for start in range(0, len(new), 1_000):
            catalog.stage("load", new[start : start + 1_000])
    assert (2, 1, {}) == (catalog.count(), catalog.last_change(), catalog.changed_since(1))
    assert ([paper.id for paper in new], 2_500) == (waiting(catalog), catalog.count_staged())
    assert [] == waiting(catalog, "another")
    assert ["p3"] == known(catalog, new[3])


def test_a_portion_is_published_in_one_change(catalog: Catalog) -> None:
    """Staged papers up to a key become current in one change; the others stay staged."""
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
    """With ``replace``, publishing a load deletes all other papers in the same change."""
    catalog.stage("load", [titled("b"), titled("c")])
    assert Change(1, 2, n_changed=2, n_new=0) == catalog.publish("load", 2**31 - 1, replace=True)
    assert ["b", "c"] == [*papers_in(catalog)]
    assert {"a": None, "c": content_hash(titled("c"))} == catalog.changed_since(1)


def test_a_load_that_is_given_up_leaves_no_text(catalog: Catalog) -> None:
    """Forgetting a load removes text that only this load brought; text of current and past papers stays."""
    given = [titled("a"), titled("c"), titled("d"), titled("e")]
    catalog.stage("load", given)
    catalog.add([given[2]])
    catalog.delete(["d"])
    catalog.remove_loads(but="load")
    assert 4 == len(waiting(catalog))
    catalog.remove_loads(but="another")
    assert (0, ["a", "d"]) == (catalog.count_staged(), known(catalog, *given))
    assert catalog.restore({"d": content_hash(given[2])}, at=2).n_changed == 1
    assert ["a", "b", "d"] == [*papers_in(catalog)]


def test_others_write_while_a_load_is_given_up(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load is forgotten in several transactions, a batch of papers in each."""
    monkeypatch.setattr("indexer.catalog.staging.BATCH_PAPERS", 2)
    catalog.stage("load", [titled(f"p{i}") for i in range(5)])
    writing, n_transactions = catalog.database.writing, []

    def counted() -> AbstractContextManager[Connection]:
        n_transactions.append(catalog.count_staged())
        return writing()

    monkeypatch.setattr(catalog.database, "writing", counted)
    catalog.remove_loads(but="another")
    assert ([5, 3, 1], 0) == (n_transactions, catalog.count_staged())


def test_a_purge_takes_staged_text_too(catalog: Catalog) -> None:
    """A purge removes the staged text of a paper, and other papers stay staged."""
    catalog.stage("load", [titled("a", "New"), titled("c")])
    catalog.purge(["a"])
    assert ["c"] == waiting(catalog)
    catalog.purge(["c"])
    assert [] == waiting(catalog)
    assert [] == known(catalog, titled("a"), titled("a", "New"), titled("c"))


def test_what_cannot_be_stored_is_not_staged(catalog: Catalog) -> None:
    """Staging refuses papers that cannot be stored, and keeps the last of two versions of a paper."""
    with pytest.raises(InputError, match="NUL"):
        catalog.stage("load", [titled("c"), titled("nul\0")])
    assert [] == waiting(catalog)
    last = dataclasses.replace(titled("c"), year=1611)
    catalog.stage("load", [titled("c"), last])
    assert [content_hash(last)] == [each.content_hash for each in catalog.staged("load")]
