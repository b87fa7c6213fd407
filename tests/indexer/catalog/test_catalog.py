"""The catalog stores every paper exactly as given, in SQLite and in PostgreSQL."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select

from indexer.catalog.catalog import Catalog, Change
from indexer.catalog.current import Compared
from indexer.catalog.tables import PaperRow
from indexer.content_hash import content_hash
from indexer.files.data_folder import CATALOG_FILE
from models.errors import InputError, StorageError
from models.types import Facet, Paper, Sentence
from tests.support.builds import paper_in, papers_in

CALLISTO = Paper(
    id="a",
    title="Über  the Moons of Jupiter",
    abstract="We count moons. Σ we find 4.",
    sentences=(
        Sentence("We count moons.", 0, 15, Facet.METHOD),
        Sentence("Σ we find 4.", 16, 28),
    ),
    year=1610,
    venue="Sidereus Nuncius",
    authors=("Galileo Galilei", "Marius, S."),
    url="https://example.org/a?b=c",
    doi="10.1/a",
    fields=("astronomy",),
)
BARE = Paper(id="b", title="", abstract="One.", sentences=(Sentence("One.", 0, 4),))


def titled(paper_id: str, title: str) -> Paper:
    """Return a paper of which only the id and the title matter."""
    return dataclasses.replace(BARE, id=paper_id, title=title)


@pytest.fixture
def catalog(catalog_place: str | Path) -> Iterator[Catalog]:
    """Yield an empty catalog."""
    with Catalog.open(catalog_place) as catalog:
        yield catalog


def test_papers_come_back_as_they_were_given(catalog: Catalog) -> None:
    """Every field, sentence offset and facet is read back as stored, and a field left out stays empty."""
    assert catalog.add([CALLISTO, BARE]).n_new == 2
    assert paper_in(catalog, "a") == CALLISTO
    assert paper_in(catalog, "b") == BARE


def test_adding_again_changes_nothing(catalog: Catalog) -> None:
    """A paper that is already stored is neither new nor counted twice, in one batch or in two."""
    assert catalog.add([CALLISTO, CALLISTO]).n_new == 1
    assert catalog.add([BARE, CALLISTO]).n_new == 1
    assert catalog.add([]).n_new == 0
    assert catalog.count() == 2
    assert [*papers_in(catalog)] == ["a", "b"]


def test_what_is_stored_already_takes_no_key(catalog: Catalog) -> None:
    """Papers that are added again take no key of a version: PostgreSQL has 2**31 of them."""
    for _ in range(3):
        catalog.add([CALLISTO, BARE])
        catalog.stage("load", [CALLISTO, titled("a", "Io")])
    with catalog.database.reading() as connection:
        keys = connection.scalars(select(PaperRow.key).order_by(PaperRow.key)).all()
    assert [1, 2, 3] == keys
    catalog.add([titled("c", "Europa")])
    with catalog.database.reading() as connection:
        assert 4 == connection.scalars(select(PaperRow.key).order_by(PaperRow.key.desc())).first()


def test_changed_paper_is_a_new_row(catalog: Catalog) -> None:
    """The newest version of a paper is current, and the row of the older version is unchanged."""
    statement = select(PaperRow.__table__).where(PaperRow.content_hash == content_hash(CALLISTO))
    catalog.add([CALLISTO])
    with catalog.database.reading() as connection:
        before = connection.execute(statement).one()
    changed = dataclasses.replace(CALLISTO, title="On the Moons of Jupiter")
    assert catalog.add([changed]).n_new == 1
    assert paper_in(catalog, "a") == changed
    assert catalog.count() == 1
    with catalog.database.reading() as connection:
        assert connection.execute(statement).one() == before


def test_going_back_to_older_content_makes_it_current(catalog: Catalog) -> None:
    """Adding an older version of a paper again makes it current without storing it twice."""
    changed = dataclasses.replace(CALLISTO, year=1611)
    catalog.add([CALLISTO])
    catalog.add([changed])
    assert catalog.add([CALLISTO]).n_new == 0
    assert paper_in(catalog, "a") == CALLISTO


def test_last_of_several_versions_in_one_batch_is_current(catalog: Catalog) -> None:
    """The last version of an id in a batch is current, even if the first version comes again at the end."""
    changed = dataclasses.replace(CALLISTO, year=1611)
    assert catalog.add([CALLISTO, changed]).n_new == 2
    assert paper_in(catalog, "a") == changed
    assert catalog.add([changed, CALLISTO]).n_new == 0
    assert paper_in(catalog, "a") == CALLISTO
    catalog.add([CALLISTO, changed, CALLISTO])
    assert paper_in(catalog, "a") == CALLISTO


def test_current_papers_come_in_the_order_in_which_they_came_in(catalog: Catalog) -> None:
    """Current papers are listed, over many pages, in the order in which their version was first stored."""
    catalog.add([titled(f"p{i}", f"Paper {i}") for i in range(2_200)])
    catalog.add([titled("p3", "Changed")])
    catalog.delete(["p4"])
    catalog.add([titled("p3", "Paper 3"), titled("p5", "Changed")])
    expected = [f"p{i}" for i in range(2_200) if i not in (4, 5)] + ["p5"]
    assert expected == [each.paper_id for each in catalog.current(up_to=catalog.last_change())]
    assert expected == [*papers_in(catalog)]
    assert {"p5": content_hash(titled("p5", "Changed"))} == catalog.current_hashes(["p4", "p5", "nul\0"])


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (dataclasses.replace(BARE, title="nul\0"), "without NUL"),
        (dataclasses.replace(BARE, authors=("\udfff",)), "lone surrogates"),
        (dataclasses.replace(BARE, year=2**31), "expected a year"),
        (dataclasses.replace(BARE, sentences=(Sentence("Two.", 0, 4),)), "split the abstract again"),
    ],
)
def test_paper_that_would_not_come_back_is_refused(catalog: Catalog, broken: Paper, reason: str) -> None:
    """A paper that one of the databases would refuse or alter is refused by both, with its whole batch."""
    with pytest.raises(InputError, match=reason):
        catalog.add([CALLISTO, broken])
    assert catalog.count() == 0


def test_failure_midway_leaves_nothing(catalog: Catalog) -> None:
    """If the sentences of a batch cannot be written, none of its papers is stored."""
    twice = dataclasses.replace(CALLISTO, id="c")

    def break_sentences(_c: object, _cursor: object, statement: str, *_: object) -> tuple[str, object]:
        return statement.replace("INTO sentences", "INTO no_such_table"), _[0]

    event.listen(catalog.database.engine, "before_cursor_execute", break_sentences, retval=True)
    with pytest.raises(StorageError, match="no_such_table"):
        catalog.add([CALLISTO, twice])
    event.remove(catalog.database.engine, "before_cursor_execute", break_sentences)
    assert catalog.count() == 0
    with catalog.database.reading() as connection:
        assert connection.execute(select(PaperRow.__table__)).all() == []


def test_content_hash_is_the_same_in_every_process() -> None:
    """Content hashes stay equal to the recorded ones, because rows of older catalogs depend on them."""
    assert content_hash(CALLISTO) == "9fe3203f50f56d55b4ab32c73aa4f65f405824735aa01f9599076f538236ff55"
    assert content_hash(BARE) == "db437dd182777e0cacdfee6b06f919b65dd1f81256287e4bd6cc4043303b9b76"


def test_content_hash_covers_every_field() -> None:
    """A different value in any one field of a paper or sentence gives a different hash."""
    other: dict[str, object] = {"sentences": CALLISTO.sentences[:1], "year": 1611, "authors": ("Galileo",)}
    other["fields"] = ("physics",)
    kept = {field.name for field in dataclasses.fields(Paper)} - {"author_ids"}  # no collection stores them
    hashes = {
        content_hash(dataclasses.replace(CALLISTO, **{name: other.get(name, "other")})) for name in kept
    }
    first, second = CALLISTO.sentences
    for changed in (
        dataclasses.replace(first, start=1),
        dataclasses.replace(first, end=14),
        dataclasses.replace(first, facet=None),
        dataclasses.replace(first, facet=Facet.RESULT),
    ):
        hashes.add(content_hash(dataclasses.replace(CALLISTO, sentences=(changed, second))))
    hashes.add(content_hash(CALLISTO))
    assert len(hashes) == len(kept) + 4 + 1


def test_thousand_papers_take_few_statements(tmp_path: Path) -> None:
    """Papers and sentences are written in batches; one statement for each would be 9,000."""
    abstract = " ".join(["A sentence of fair length about moons."] * 8)
    sentences = tuple(Sentence(abstract[i * 39 : i * 39 + 38], i * 39, i * 39 + 38) for i in range(8))
    papers = [Paper(str(i), f"Paper {i}", abstract, sentences) for i in range(1000)]
    with Catalog.open(tmp_path / CATALOG_FILE) as catalog:
        statements: list[object] = []
        event.listen(
            catalog.database.engine, "before_cursor_execute", lambda *given: statements.append(given)
        )
        assert catalog.add(papers).n_new == 1000
        assert len(statements) < 100


def test_what_changed_is_found_without_reading_all(tmp_path: Path) -> None:
    """SQLite finds changes by their index, so the cost of publishing does not grow with the catalog."""
    with Catalog.open(tmp_path / CATALOG_FILE) as catalog:
        catalog.add([titled(str(i), f"Paper {i}") for i in range(100)])
        statements: list[tuple[Any, ...]] = []
        event.listen(
            catalog.database.engine, "before_cursor_execute", lambda *given: statements.append(given)
        )
        assert catalog.changed_since(1) == {}
        with catalog.database.engine.connect() as connection:
            statement, values = next(given[2:4] for given in statements if "current_papers" in given[2])
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()
    assert "SEARCH current_papers USING INDEX ix_current_papers_change" in plan[0][-1]


def test_deleted_paper_is_gone_until_it_is_added_again(catalog: Catalog) -> None:
    """A deleted paper is neither counted nor found; adding it again restores it without a second copy."""
    catalog.add([CALLISTO, BARE])
    catalog.delete(["a", "never there"])
    assert [*papers_in(catalog)] == ["b"]
    assert catalog.count() == 1
    assert catalog.current_hashes(["a", "b", "c", "nul\0"]).keys() == {"b"}
    assert catalog.current_hashes(["a"]) == {}
    assert catalog.add([CALLISTO]).n_new == 0
    assert paper_in(catalog, "a") == CALLISTO


def test_changes_are_numbered_and_listed(catalog: Catalog) -> None:
    """Each transaction that changes papers gets the next number, and readers can list later changes."""
    changed = dataclasses.replace(CALLISTO, year=1611)
    assert catalog.last_change() == 0
    assert catalog.add([CALLISTO, BARE]) == Change(0, 1, n_changed=2, n_new=2)
    assert catalog.add([CALLISTO]) == Change(1, 1, n_changed=0, n_new=0)
    assert catalog.delete(["b"]) == Change(1, 2, n_changed=1, n_new=0)
    assert catalog.delete(["b"]) == Change(2, 2, n_changed=0, n_new=0)
    assert catalog.add([changed]) == Change(2, 3, n_changed=1, n_new=1)
    assert catalog.changed_since(0) == {"a": content_hash(changed), "b": None}
    assert catalog.changed_since(2) == {"a": content_hash(changed)}
    assert catalog.changed_since(3) == {}


def test_changes_that_were_compared_are_not_listed_again(catalog: Catalog) -> None:
    """Listed are changes of papers stored later, later changes, and deletions; all if the version is gone."""
    older, newer, last = titled("a", "Io"), titled("b", "Europa"), titled("c", "Ganymede")
    hashes = {paper.id: content_hash(paper) for paper in (older, newer, last)}
    catalog.add([older])
    catalog.add([newer, last, CALLISTO])
    catalog.delete(["d"])
    compared = Compared(hashes["b"], catalog.last_change())
    left = {"d": None, "c": hashes["c"], "a": content_hash(CALLISTO)}
    assert left == dict(catalog.changes_since(0, but=compared))
    catalog.add([older])  # its version was stored before ``b``
    assert {**left, "a": hashes["a"]} == dict(catalog.changes_since(0, but=compared))
    every = catalog.changed_since(0)
    assert every == dict(catalog.changes_since(0, but=Compared("never there", catalog.last_change())))


def test_older_versions_can_be_restored(catalog: Catalog) -> None:
    """Restoring makes a version current by its hash, and deletes a paper if its hash is ``None``."""
    changed = dataclasses.replace(CALLISTO, year=1611)
    catalog.add([CALLISTO])
    catalog.add([changed, BARE])
    assert catalog.restore({"a": content_hash(CALLISTO), "b": None}, at=1).n_changed == 2
    assert paper_in(catalog, "a") == CALLISTO
    assert [*papers_in(catalog)] == ["a"]
