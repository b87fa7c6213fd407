"""Reading that was stopped goes on where it was, and comes to what it would have come to."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.catalog.catalog import CATALOG_FILE, Catalog
from indexer.corpus import read as corpus_module
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.corpus.rows import RawPaper, to_paper
from indexer.encoding.reading import (
    PartBounds,
    Reading,
    UnfinishedReading,
    finished_reading,
    read_into_parts,
    read_versions,
    unfinished_reading,
)
from models.types import Paper
from tests.support.builds import many_papers
from tests.support.trials.damage import cut

KEY = "the same"
PART = 5
BOUNDS = PartBounds(PART, read=8)


class StoppedError(Exception):
    """What stops a reading here."""


def rows() -> list[dict[str, Any]]:
    """Papers, and every kind of row that is refused."""
    papers = many_papers(40)
    french = "Les baleines chantent dans la mer et personne ne sait pourquoi elles le font."
    papers[3] |= {"title": ""}  # refused for its title,
    papers[8] |= {"id": papers[3]["id"]}  # so that its id is free;
    papers[9] |= {"id": papers[3]["id"]}  # not any more
    papers[12] |= {"id": papers[1]["id"]}
    papers[20] |= {"id": " blank "}
    papers[5] |= {"abstract": french}
    papers[30] |= {"year": "yes"}
    return papers


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files with an id in common, the first one cut short, a broken line in the second."""
    lines = [json.dumps(row).encode() for row in rows()]
    lines[15] = b'{"id": '
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl.gz"
    one.write_bytes(b"\n".join(lines[:25]) + b"\n")
    other.write_bytes(gzip.compress(b"\n".join([lines[2], *lines[25:]]), mtime=0)[:-40])
    return [other, one]


def papers_in(files: list[Path], report: CorpusReport) -> Iterator[Paper]:
    """All papers of some files."""
    for file in files:
        yield from read_corpus(file, format_name="jsonl", report=report)


def is_unchanged(paper: Paper) -> bool:
    """Most of those in the middle."""
    return paper.id in {f"p{number}" for number in range(10, 34)}


def read(files: list[Path], folder: Path, *, stop_after: int | None = None) -> Reading:
    """Reads as a build does; stopped after so many papers."""
    folder.mkdir(exist_ok=True)
    unfinished = unfinished_reading(folder, KEY)

    def stopped() -> Iterator[Paper]:
        for number, paper in enumerate(papers_in(files, unfinished.report)):
            if number == stop_after:
                raise StoppedError
            yield paper

    return read_into_parts(
        stopped(), unfinished, is_unchanged=is_unchanged, on_part=lambda n_done: None, bounds=BOUNDS
    )


def contents(folder: Path) -> dict[str, bytes]:
    """What lies in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_rows_here_are_of_every_kind(files: list[Path], tmp_path: Path) -> None:
    """Or what follows would show little."""
    reading = read(files, tmp_path / "whole")
    assert reading.refusals.duplicates == 3
    assert reading.refusals.broken == 8
    assert any("breaks off" in example for example in reading.refusals.examples)
    assert reading.languages == {"fr": 1}
    assert reading.unchanged > 8
    assert {1, PART} <= {part.n_papers for part in reading.parts[:-1]}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stops=st.lists(st.integers(0, 40), max_size=4))
def test_a_stopped_reading_goes_on(
    files: list[Path], tmp_path_factory: pytest.TempPathFactory, stops: list[int]
) -> None:
    """However often it was stopped, wherever: the files and the outcome are those of one that was not."""
    folder = tmp_path_factory.mktemp("reading")
    whole = read(files, folder / "whole")
    for stop_after in stops:
        try:
            read(files, folder / "stopped", stop_after=stop_after)
        except StoppedError:
            continue
    assert whole == read(files, folder / "stopped")
    assert contents(folder / "whole") == contents(folder / "stopped")
    assert whole == finished_reading(folder / "stopped", KEY)


def test_what_was_read_is_not_read_again(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the papers after the last part are made into papers a second time."""
    made: list[object] = []

    def counting(raw: RawPaper) -> Paper:
        made.append(raw.id)
        return to_paper(raw)

    monkeypatch.setattr(corpus_module, "to_paper", counting)
    read(files, tmp_path / "whole")
    in_all = len(made)
    made.clear()
    with pytest.raises(StoppedError):
        read(files, tmp_path / "stopped", stop_after=27)
    first = len(made)
    made.clear()
    read(files, tmp_path / "stopped")
    assert 0 < first + len(made) - in_all <= 8
    assert len(made) < in_all / 2


@pytest.mark.parametrize("damage", [cut, Path.unlink])
@pytest.mark.parametrize("name", ["read-00000.json", "read-00002.json", "part-00001.arrow"])
def test_damage_is_read_again(
    files: list[Path], tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    """What is not whole counts for nothing, nor does what came after it."""
    read(files, tmp_path / "whole")
    with pytest.raises(StoppedError):
        read(files, tmp_path / "stopped", stop_after=29)
    damage(tmp_path / "stopped" / name)
    read(files, tmp_path / "stopped")
    assert contents(tmp_path / "whole") == contents(tmp_path / "stopped")


def test_another_reading_is_not_taken_up(files: list[Path], tmp_path: Path) -> None:
    """What was read under another key, of another corpus perhaps, counts for nothing."""
    with pytest.raises(StoppedError):
        read(files, tmp_path / "stopped", stop_after=29)
    assert unfinished_reading(tmp_path / "stopped", KEY).parts
    assert not unfinished_reading(tmp_path / "stopped", "another").parts


def test_reading_a_catalog_goes_on(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of papers in parts already, no version is asked for again."""
    asked: list[str] = []
    versions = Catalog.versions

    def counting(catalog: Catalog, hashes: Any) -> Iterator[Paper]:
        for paper in versions(catalog, hashes):
            asked.append(paper.id)
            yield paper

    def part_read(n_done: int) -> None:
        if n_done >= 2 * PART and not stopped:
            stopped.append(n_done)
            raise StoppedError

    def read_all(folder: Path) -> Reading:
        folder.mkdir(exist_ok=True)
        return read_versions(
            catalog,
            catalog.changed_since(0),
            UnfinishedReading(folder, KEY),
            on_part=part_read,
            bounds=BOUNDS,
        )

    with Catalog.open(tmp_path / CATALOG_FILE) as catalog:
        catalog.add(papers_in(files, CorpusReport()))
        stopped = [0]
        whole = read_all(tmp_path / "whole")
        stopped.clear()
        monkeypatch.setattr(Catalog, "versions", counting)
        with pytest.raises(StoppedError):
            read_all(tmp_path / "stopped")
        asked.clear()
        unfinished = unfinished_reading(tmp_path / "stopped", KEY)
        assert whole == read_versions(catalog, catalog.changed_since(0), unfinished, bounds=BOUNDS)
        assert whole.n_papers - 2 * PART == len(asked)
    assert contents(tmp_path / "whole") == contents(tmp_path / "stopped")
