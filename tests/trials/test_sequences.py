"""Tests that after any sequence of commands a collection answers like one built at once from its papers."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from indexer.catalog.catalog import Catalog
from indexer.collection.changes import publish_pending
from indexer.collection.delete import delete_papers
from indexer.collection.growth import Bounds, publish_added, publish_changes
from indexer.collection.merging import Tiers, compact, merge
from indexer.collection.purge import purge_papers
from indexer.collection.reindex import prepare, publish_prepared
from indexer.collection.rollback import rollback
from indexer.encoding.arguments import BuildArguments
from indexer.encoding.known import KnownVersions
from indexer.files.data_folder import CATALOG_FILE, KEEP, DataFolder
from indexer.snapshot.folder import current_generation
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.text.sentences import sentences_from_list
from models.types import Paper
from tests.support.annotators import hashing_annotator
from tests.support.builds import build_quietly, many_papers, quiet, write_corpus
from tests.support.same_answers import assert_same_answers, ids_of
from tests.support.trials.settings import print_figure

N_COMMANDS = 12
# Of all 52 seeds this one notices most of the possible faults of merges.
SAMPLE = (7,)
BESIDE = 10  # of all 51 this one notices most
ALL = 1  # runs all three commands
CROSSED = 0
AT_ONCE = 4  # papers: services publish in several rounds
TRIAL = [seed for seed in range(52) if seed not in SAMPLE]
_POOL = many_papers(150)

Row = dict[str, Any]


class Grown:
    """A collection and the expected rows of each generation, by id."""

    def __init__(self, folder: Path, encoder: Encoder, seed: int) -> None:
        self.data = folder / "data"
        self._folder, self._encoder, self._random = folder, encoder, random.Random(seed)
        self._purged: set[str] = set()
        self.rows: dict[str, Row] = {}
        self._of: dict[str, dict[str, Row]] = {}
        self._index()

    def run(self) -> str:
        """Run a random command and return its name."""
        commands: list[Callable[[], None]] = [
            self._index, self._index, self._post, self._delete, self._unpost,
            self._merge, self._compact, self._roll_back, self._purge, self._replace,
        ]  # fmt: skip
        command = self._random.choice(commands)
        command()
        self._of[current_generation(self.data)] = dict(self.rows)
        return command.__name__

    def run_of_all(self) -> str:
        """Run a random command, possibly one that writes all papers again, and return its name."""
        commands = [self._reindex, self._in_portions, self._replace_beside]
        if self._random.random() < 0.6:
            return self.run()
        command = self._random.choice(commands)
        command()
        self._of[current_generation(self.data)] = dict(self.rows)
        return command.__name__

    def run_beside(self) -> str:
        """Run a command, and another between its catalog change and its lock; return their names."""
        others = [self._post, self._unpost, self._delete, self._merge, self._compact]
        other, done = self._random.choice(others), list[str]()
        ids = self._some_ids()
        rows = [row for row in self._some() if row["id"] not in ids]
        for row, paper_id in zip(rows, ids[:5], strict=False):
            row["id"] = paper_id  # both change these papers

        def beside(change: Callable[..., Any], *forgotten: str, **brought: Row) -> Callable[..., Any]:
            def changed(*given: Any, **named: Any) -> Any:
                if done:
                    return change(*given, **named)
                done.append(other.__name__)
                found = change(*given, **named)
                self._forget([paper_id for paper_id in forgotten if paper_id in self.rows])
                self.rows |= brought
                other()
                return found

            return changed

        if self._random.random() < 0.5:
            with patch.object(Catalog, "delete", beside(Catalog.delete, *ids)):
                self._deleted(ids)
            return f"delete, {done}"
        corpus = write_corpus(self._folder / "c.jsonl", rows)
        with patch.object(Catalog, "publish", beside(Catalog.publish, **{row["id"]: row for row in rows})):
            build_quietly(corpus, self.data, self._encoder)
        with Catalog.open(self.data / CATALOG_FILE) as catalog:
            self._publish_pending(catalog)
        return f"index, {done}"

    def run_crossed(self) -> str:
        """Run a command, or index papers while a service sets some back and publishes last; return a name."""
        if self._random.random() < 0.5:
            return self.run()
        rows, first = self._some(), list[Any]()
        back = [self.rows[row["id"]] for row in rows if row["id"] in self.rows][:3]
        ids = {row["id"] for row in rows}
        posted = [*back, *(row for row in self._some()[:6] if row["id"] not in ids)]

        def crossed(*given: Any, **named: Any) -> Any:
            def after_first(*own: Any, **own_named: Any) -> Any:
                if not first:
                    first.append(publish_changes(*given, **named))
                return publish_changes(*own, **own_named)

            if first:
                return publish_changes(*given, **named)
            with Catalog.open(self.data / CATALOG_FILE) as catalog:
                catalog.add([paper_of(row) for row in posted])
                with patch("indexer.collection.changes.publish_changes", after_first):
                    self._publish_pending(catalog)
            self.rows |= {row["id"]: row for row in [*rows, *posted]}
            if not first:  # nothing to publish was left for the service
                first.append(publish_changes(*given, **named))
            return first[0]

        if rows:
            with patch("indexer.collection.build.publish_changes", crossed):
                build_quietly(write_corpus(self._folder / "c.jsonl", rows), self.data, self._encoder)
            self.rows |= {} if first else {row["id"]: row for row in rows}
        self._of[current_generation(self.data)] = dict(self.rows)
        return f"index crossed by a service, {len(back)} set back"

    def _some(self) -> list[Row]:
        """Return random rows, of which some have ids that are present and another abstract."""
        rows = [dict(row) for row in self._random.sample(_POOL, self._random.randint(1, 25))]
        for row in rows:
            if self._random.random() < 0.2:
                row["abstract"] = self._random.choice(_POOL)["abstract"]
        return [row for row in rows if row["id"] not in self._purged]

    def _some_ids(self) -> list[str]:
        """Return ids of some present papers, never all."""
        ids = sorted(self.rows)
        return self._random.sample(ids, min(self._random.randint(1, 9), len(ids) - 1))

    def _index(self) -> None:
        if rows := self._some():
            build_quietly(write_corpus(self._folder / "c.jsonl", rows), self.data, self._encoder)
            self.rows |= {row["id"]: row for row in rows}

    def _replace(self) -> None:
        if rows := self._some():
            corpus = write_corpus(self._folder / "c.jsonl", rows)
            build_quietly(corpus, self.data, self._encoder, replace=True)
            self.rows = {row["id"]: row for row in rows}

    def _in_portions(self) -> None:
        """Index rows three at a time, while other papers are added during the third portion."""
        rows, publish, portions, added = self._some(), Catalog.publish, list[int](), list[Row]()

        def counted(catalog: Catalog, *given: Any, **named: Any) -> Any:
            portions.append(1)
            return publish(catalog, *given, **named)

        def then_others(*given: Any, **named: Any) -> Any:
            manifest = publish_added(*given, **named)
            if len(portions) == 3 and not added:
                added.extend(others)
                with Catalog.open(self.data / CATALOG_FILE) as catalog:
                    catalog.add([paper_of(row) for row in others])
            return manifest

        others = [row for row in self._some() if row["id"] not in {row["id"] for row in rows}]
        if not rows:
            return
        corpus = write_corpus(self._folder / "c.jsonl", rows)
        with (
            patch("indexer.collection.growth.publish_added", then_others),
            patch.object(Catalog, "publish", counted),
        ):
            build_quietly(corpus, self.data, self._encoder, bounds=Bounds(publish_every=3, part=2))
        self.rows |= {row["id"]: row for row in rows + added}

    def _replace_beside(self) -> None:
        """Replace all papers, while another command changes and publishes some."""
        rows, publish, done = self._some(), Catalog.publish, list[str]()

        def then_other(catalog: Catalog, *given: Any, **named: Any) -> Any:
            change = publish(catalog, *given, **named)
            if not done:
                self.rows = {row["id"]: row for row in rows}
                other = self._random.choice([self._post, self._unpost, self._delete])
                done.append(other.__name__)
                other()
            return change

        if len(rows) > 1:
            corpus = write_corpus(self._folder / "c.jsonl", rows)
            with patch.object(Catalog, "publish", then_other):
                build_quietly(corpus, self.data, self._encoder, replace=True)

    def _reindex(self) -> None:
        """Encode all papers again, while some change: after the first ten were read, and in the end."""
        take, begun = KnownVersions.take, list[int]()

        def then_changed(known: KnownVersions, wanted: dict[str, str]) -> Any:
            begun.append(1)
            if len(begun) == 1:
                self._change(catalog)
            return take(known, wanted)

        with Catalog.open(self.data / CATALOG_FILE) as catalog:
            backend = self._random.choice(["exact", "flat"])
            arguments = BuildArguments(encoder="hashing", backend=backend, device="cpu")
            given: dict[str, Any] = {"arguments": arguments, "on_progress": quiet, "bounds": Bounds(part=10)}
            with (
                patch("indexer.catalog.catalog._PAGE", 10),
                patch.object(KnownVersions, "take", then_changed),
            ):
                prepared = prepare(self.data, hashing_annotator(), catalog, **given)
            self._change(catalog)
            publish_prepared(self.data, prepared, hashing_annotator(), catalog, keep=KEEP)

    def _change(self, catalog: Catalog) -> None:
        """Add, replace and delete papers of the catalog."""
        rows = self._some()
        catalog.add([paper_of(row) for row in rows])
        self.rows |= {row["id"]: row for row in rows}
        ids = self._some_ids()
        catalog.delete(ids)
        self._forget(ids)

    def _post(self) -> None:
        rows = self._some()
        with Catalog.open(self.data / CATALOG_FILE) as catalog:
            catalog.add([paper_of(row) for row in rows])
            self._publish_pending(catalog)
        self.rows |= {row["id"]: row for row in rows}

    def _unpost(self) -> None:
        ids = self._some_ids()
        with Catalog.open(self.data / CATALOG_FILE) as catalog:
            catalog.delete(ids)
            self._publish_pending(catalog)
        self._forget(ids)

    def _delete(self) -> None:
        ids = self._some_ids()
        self._deleted(ids)
        self._forget(ids)

    def _deleted(self, ids: list[str]) -> None:
        with Catalog.open(self.data / CATALOG_FILE) as catalog:
            delete_papers(self.data, ids, catalog, keep=KEEP)

    def _purge(self) -> None:
        ids = self._some_ids()[:2]
        with Catalog.open(self.data / CATALOG_FILE) as catalog:
            purge_papers(self.data, ids, catalog)
        self._purged |= set(ids)
        self._forget(ids)

    def _merge(self) -> None:
        merge(self.data, tiers=Tiers(fewest=2), keep=KEEP)

    def _compact(self) -> None:
        compact(self.data, open_snapshot(self.data), device="cpu", keep=KEEP)

    def _roll_back(self) -> None:
        known = [name for name in DataFolder(self.data).generations() if name in self._of]
        to = self._random.choice(known) if known else current_generation(self.data)
        with Catalog.open(self.data / CATALOG_FILE) as catalog:
            done = rollback(self.data, to, catalog=catalog)
        if done.is_new:
            self.rows = dict(self._of.get(to, self.rows))

    def _publish_pending(self, catalog: Catalog) -> None:
        publish_pending(
            self.data, hashing_annotator(), catalog, on_progress=quiet, keep=KEEP, at_once=AT_ONCE
        )

    def _forget(self, ids: list[str]) -> None:
        for paper_id in ids:
            self.rows.pop(paper_id)


def paper_of(row: Row) -> Paper:
    """Return the paper that indexing makes of a row."""
    abstract, sentences = sentences_from_list(row["abstract"])
    return Paper(row["id"], row["title"], abstract, sentences, year=row["year"])


@pytest.mark.parametrize("seed", [*SAMPLE, *(pytest.param(each, marks=pytest.mark.trial) for each in TRIAL)])
def test_a_collection_is_what_its_papers_are(seed: int, tmp_path: Path, hashing: Encoder) -> None:
    """After any commands the same papers have the same scores, to 1e-6."""
    assert_stays_right(Grown.run, seed, tmp_path, hashing)


@pytest.mark.parametrize(
    "seed", [CROSSED, *(pytest.param(each, marks=pytest.mark.trial) for each in range(51) if each != CROSSED)]
)
def test_publications_that_cross_lose_nothing(seed: int, tmp_path: Path, hashing: Encoder) -> None:
    """The same holds if a service publishes last what it compared before another command published."""
    assert_stays_right(Grown.run_crossed, seed, tmp_path, hashing)


@pytest.mark.parametrize(
    "seed", [BESIDE, *(pytest.param(each, marks=pytest.mark.trial) for each in range(51) if each != BESIDE)]
)
def test_what_others_do_beside_a_command_is_not_lost(seed: int, tmp_path: Path, hashing: Encoder) -> None:
    """The same holds if another command changes and publishes papers before a command takes its lock."""
    assert_stays_right(Grown.run_beside, seed, tmp_path, hashing)


@pytest.mark.parametrize(
    "seed", [ALL, *(pytest.param(each, marks=pytest.mark.trial) for each in range(51) if each != ALL)]
)
def test_what_writes_all_anew_changes_no_answer(seed: int, tmp_path: Path, hashing: Encoder) -> None:
    """The same holds with re-indexing, loads in portions, and replacing while others write."""
    assert_stays_right(Grown.run_of_all, seed, tmp_path, hashing)


def assert_stays_right(run: Callable[[Grown], str], seed: int, tmp_path: Path, hashing: Encoder) -> None:
    """Check the papers after each command, and at the end the answers of a new build of the same papers."""
    grown, commands = Grown(tmp_path, hashing, seed), list[str]()
    for _ in range(N_COMMANDS):
        commands.append(run(grown))
        assert sorted(grown.rows) == ids_of(open_snapshot(grown.data, reread=False)), commands
    print_figure(f"seed {seed}: {commands}")
    assert_as_built_at_once(grown, tmp_path, hashing)


def assert_as_built_at_once(grown: Grown, tmp_path: Path, hashing: Encoder) -> None:
    """Check that a collection has its papers, and answers like a new build of them."""
    rows = sorted(grown.rows.values(), key=lambda row: row["id"])
    build_quietly(write_corpus(tmp_path / "all.jsonl", rows), tmp_path / "anew", hashing)
    one, other = open_snapshot(grown.data), open_snapshot(tmp_path / "anew")
    assert sorted(grown.rows) == ids_of(one)
    assert_same_answers(one, other, list(grown.rows)[:6], limit=200)
