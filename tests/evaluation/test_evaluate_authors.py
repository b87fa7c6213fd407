"""Tests of ``akin evaluate authors``: the authors drawn, the ratings, and the command's output."""

import json
from pathlib import Path

import pytest

from evaluation.tasks.authors import Authors, author_set
from evaluation.tasks.task import Task, TaskOptions
from models.errors import InputError
from tests.support.commands import flat, run
from tests.support.examples.evaluation.set_examples import lines, write
from tests.support.examples.evaluation.system_examples import ignore

TOPICS = {"ada": "moss on walls", "bo": "moss on stones", "cy": "bells in towers", "di": "rain over lakes"}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Return papers of four authors with ten before 2019 and three after; Ada writes with Bo, Bo with Cy."""
    papers = []
    for name, topic in TOPICS.items():
        for number in range(13):
            year = 2010 + number if number < 9 else 2018 if number == 9 else 2019 + number
            with_others = {("ada", 0): ["bo"], ("bo", 0): ["cy"]}.get((name, number), [])
            abstract = f"We study {topic}. Part {number} of {name} measures {topic} again."
            papers.append(
                {
                    "id": f"{name}{number}",
                    "title": f"On {topic}, part {number}",
                    "abstract": abstract,
                    "year": year,
                    "authors": [name, *with_others],
                }
            )
    write(tmp_path, "corpus.jsonl", lines(*papers))
    return tmp_path / "corpus.jsonl"


def test_papers_are_rated_by_who_wrote_them(corpus: Path) -> None:
    """Earlier papers form the profile, and later ones are graded once, by the closest co-author."""
    made = author_set(corpus, split=2019, n_authors=10)
    assert set(TOPICS) == set(made.profiles)
    assert {f"ada{number}" for number in range(10)} == set(made.profiles["ada"])
    assert {f"bo{number}" for number in range(10)} | {"ada0"} == set(made.profiles["bo"])
    by_grade: dict[float, set[str]] = {}
    for paper, grade in made.ratings["ada"].items():
        by_grade.setdefault(grade, set()).add(paper)
    expected = {
        5.0: {"ada10", "ada11", "ada12"},
        4.0: {"bo10", "bo11", "bo12"},
        2.0: {"cy10", "cy11", "cy12"},
        1.0: {"di10", "di11", "di12"},
    }
    assert expected == by_grade
    rated = {paper for own in made.ratings.values() for paper in own}
    assert rated | {paper for own in made.profiles.values() for paper in own} == set(made.papers)


def test_authors_are_a_task_of_the_suite(corpus: Path) -> None:
    """The figures are of the split and of so many authors, and Akin is compared with each other affinity."""
    options = TaskOptions("hashing", None, "cpu", 3, ignore)
    found = Authors(split=2019, n_authors=4).measure(corpus, options)
    assert 3 == found.n_queries
    assert {"loss", "easy", "hard"} >= {row.measure for row in found.rows} > {"loss"}
    systems = {row.system for row in found.rows}
    assert systems == {"akin"} | {each.b for each in found.compared}
    made = author_set(corpus, split=2019, n_authors=3)
    assert len(made.papers) == found.n_papers
    assert f"{sum(map(len, made.ratings.values()))} ratings." == found.notes[0]
    assert isinstance(Authors(2019, 3), Task)


def test_papers_that_cannot_be_used_are_counted(corpus: Path) -> None:
    """Broken rows, and papers without a year or authors, are left out with a note."""
    assert () == author_set(corpus, split=2019, n_authors=2).notes
    with corpus.open("a") as file:
        file.write('{"id": "x", "title": "No year", "abstract": "We study floods."}\n{"id": "y"}\n')
    rows, years = author_set(corpus, split=2019, n_authors=2).notes
    assert rows.startswith("Left out: 1 row of corpus.jsonl without a usable paper; the first, line 54: ")
    assert "Left out: 1 paper without a year or authors." == years


def test_who_is_drawn_is_the_same_each_time(corpus: Path) -> None:
    """Drawing fewer authors gives the first ones of a larger draw, with the same ratings."""
    two, three = (author_set(corpus, split=2019, n_authors=n) for n in (2, 3))
    assert list(two.profiles) == list(three.profiles)[:2]
    assert two.ratings == {name: three.ratings[name] for name in two.ratings}
    with pytest.raises(InputError, match="no author has 10 papers before 2015"):
        author_set(corpus, split=2015, n_authors=2)


def test_the_command_compares_kinds_of_distance_and_ways_to_sum_up(corpus: Path, tmp_path: Path) -> None:
    """The command compares distances and sums of them, and Akin's affinity finds papers on the topic."""
    figures = tmp_path / "figures.json"
    options = ("--encoder", "hashing", "--split", "2019", "--json", figures)
    shown = flat(run("evaluate", "authors", corpus, *options))
    assert "ratings of 4 researchers), percent" in shown
    rows = {(row["system"], row["measure"]): row["value"] for row in json.loads(figures.read_bytes())}
    systems = {system for system, _ in rows}
    assert {"akin", "ot, nearest 3", "tf-idf, mean", "one vector, nearest 5, relative"} < systems
    assert 5 * 4 * 2 == len(systems)
    assert rows["akin", "easy"] == 100
    assert "akin − ot, nearest 1: loss" in shown
