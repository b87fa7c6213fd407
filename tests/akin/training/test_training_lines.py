"""Tests that run the lines of the pages on training, functions and reviewers with small data."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.builds import DEMO_CORPUS, ROOT
from tests.support.commands import run
from tests.support.documents import shown_lines, words_of
from tests.support.examples.evaluation import set_examples
from tests.support.examples.models.tiny_bert import write_tiny_bert
from tests.support.examples.models.training_sets import citing_sentences, write_lines

DOCS = ROOT / "docs" / "how-to"
SENTENCES = ["Little is known about rivers.", "We fit a graph network.", "Our results show that floods pass."]


def typed(page: str, start: str, instead: Mapping[str, str]) -> list[str]:
    """Run the lines of a page that begin with ``start`` and have arguments; return their outputs in order."""
    lines = [line for line in dict.fromkeys(shown_lines(DOCS / page)) if line.startswith(start)]
    whole = [words for line in lines if len(words := words_of(line)[1:]) > 3]
    assert whole
    return [run(*(instead.get(word, word) for word in words)) for words in whole]


def toml_of(page: str) -> str:
    """Return the first TOML block of a page."""
    found = re.search(r"```toml\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.S)
    assert found
    return found[1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, next to a tiny encoder."""
    write_tiny_bert(tmp_path / "tiny")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def test_an_encoder_is_trained_as_the_page_says(folder: Path) -> None:
    """The page's lines make a set, and train, measure and export with the page's own configuration."""
    # Papers with the abstract of a held-out one would be left out, and numbers make no other abstract.
    papers = [
        {"id": f"p{i}", "title": f"The {i}. of its kind", "abstract": ["We name it " + "x" * i, *SENTENCES]}
        for i in range(80)
    ]
    write_lines(folder / "papers.jsonl", [*papers])
    write_lines(folder / "contexts.jsonl", citing_sentences(80))
    set_examples.csfcube(folder.parent / "csfcube")
    set_examples.beir(folder.parent / "scifact")
    given = ("--papers", "papers.jsonl", "--citations", "contexts.jsonl")
    run("train", "data", "contexts", *given, "--out", "sets/contexts")
    smaller = {'"minilm" ': '"../tiny"', "n_steps = 500": "n_steps = 4", "batch = 12": "batch = 3"}
    config = toml_of("training.md")
    for written, own in smaller.items():
        assert written in config
        config = config.replace(written, own)
    (folder / "run.toml").write_text(config, encoding="utf-8")
    instead = {"300": "5", "minilm": "../tiny", "FOLDER": "exported"}
    data, *_, exported = typed("training.md", "akin train", instead)
    assert "5" in data
    assert "exported" in exported
    assert (folder / "runs/first/encoder/README.md").is_file()
    assert (folder / "exported/model.safetensors").is_file()
    measured = typed("training.md", "akin evaluate", instead)
    assert 3 == len(measured)
    assert all("first" in shown and "tiny" in shown for shown in measured)


def test_functions_are_trained_as_the_page_says(folder: Path) -> None:
    """The page's phrases are counted, trained on and measured."""
    papers = [{"id": f"p{i}", "title": f"Paper {i}", "abstract": SENTENCES} for i in range(40)]
    write_lines(folder / "corpus.jsonl", papers)
    (folder / "mine.toml").write_text(toml_of("functions.md"), encoding="utf-8")
    set_examples.functions(folder)
    instead = {"corpus.jsonl.gz": "corpus.jsonl", "minilm": "../tiny"}
    own = ("--encoder", "../tiny", "--layers", "1,2", "--dim", "8")
    for words in [words_of(line)[1:] for line in shown_lines(DOCS / "functions.md")]:
        if words[:2] == ["train", "functions"]:
            assert "point-out-gap" in run(*(instead.get(word, word) for word in words), *own)
    assert (folder / "mine.safetensors").is_file()
    (measured,) = typed("functions.md", "akin evaluate functions dev.jsonl", instead)
    assert "mine" in measured


def test_reviewers_are_matched_as_the_page_says(folder: Path) -> None:
    """Submissions and a folder of profiles give a report and assignments."""
    papers = [json.loads(line) for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]
    (folder / "submissions.json").write_text(json.dumps(papers[:2]), encoding="utf-8")
    (folder / "archives").mkdir()
    for number in range(4):
        write_lines(folder / "archives" / f"~Ada_Quill{number}.jsonl", papers[10 + 3 * number :][:3])
    typed(
        "match.md", "akin match submissions.json", {"--reviewers": "--encoder=hashing", "3": "--reviewers=3"}
    )
    assert (folder / "matched" / "report.html").is_file()
    assert 6 == len((folder / "matched" / "assignments.csv").read_text(encoding="utf-8").splitlines()) - 1
