"""Submissions as OpenReview's expertise format has them: one JSON object by id."""

import json
from pathlib import Path

import pytest

from indexer.corpus.formats import openreview
from indexer.corpus.read import CorpusReport, read_corpus
from models.errors import BrokenFileError
from tests.support.examples.corpus_examples import reasons


def _entry(title: str, abstract: str = "It rains.") -> dict[str, object]:
    return {"id": "ignored", "content": {"title": title, "abstract": abstract}}


def _write(folder: Path, text: str) -> Path:
    path = folder / "submissions.json"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("indent", [None, 2])
def test_submissions_by_id(tmp_path: Path, indent: int | None) -> None:
    """Each has the id inside its entry, or else its key; pretty or on one line."""
    document: dict[str, object] = {"a": {"id": "a", "content": {"title": "Rain", "abstract": "It rains."}}}
    document["b"] = {"content": {"title": "Snow", "abstract": "It snows."}}
    found = tuple(read_corpus(_write(tmp_path, json.dumps(document, indent=indent))))
    assert [("a", "Rain", "It rains."), ("b", "Snow", "It snows.")] == [
        (each.id, each.title, each.abstract) for each in found
    ]


def test_a_broken_submission_is_named_and_passed_over(tmp_path: Path) -> None:
    """By its key, for all entries may stand on one line."""
    document = {"a": {"id": "a", "content": "text"}, "b": 7, "c": _entry("Rain")}
    path = _write(tmp_path, json.dumps(document))
    assert ["ignored"] == [each.id for each in read_corpus(path)]
    told = 'no "content" with a title and an abstract'
    assert [(1, f"entry 'a': {told}"), (1, f"entry 'b': {told}")] == reasons(path)


def test_a_document_that_is_cut_short_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is read in part: which entries are whole could not be told."""
    text = json.dumps({"a": _entry("Rain"), "b": _entry("Snow")})
    path = _write(tmp_path, text[:-5])
    report = CorpusReport()
    assert [] == list(read_corpus(path, report=report))
    assert "no valid JSON" in reasons(path)[0][1]
    monkeypatch.setattr(openreview, "MAX_DOCUMENT_BYTES", len(text) - 1)
    with pytest.raises(BrokenFileError, match="write one paper a line"):
        list(read_corpus(_write(tmp_path, text), on_error="fail"))
