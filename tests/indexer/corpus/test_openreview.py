"""Submissions in OpenReview's expertise format: one JSON object by id."""

import io
import json
from pathlib import Path

import pytest

from indexer.corpus.formats.openreview import OpenReviewReader
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.corpus.source import Lines
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
    """A submission has the id inside its entry, or else its key, pretty-printed or on one line."""
    document: dict[str, object] = {"a": {"id": "a", "content": {"title": "Rain", "abstract": "It rains."}}}
    document["b"] = {"content": {"title": "Snow", "abstract": "It snows."}}
    found = tuple(read_corpus(_write(tmp_path, json.dumps(document, indent=indent))))
    assert [("a", "Rain", "It rains."), ("b", "Snow", "It snows.")] == [
        (each.id, each.title, each.abstract) for each in found
    ]


def test_a_broken_submission_is_named_and_passed_over(tmp_path: Path) -> None:
    """A broken submission is reported by its key, because all entries may be on one line."""
    document = {"a": {"id": "a", "content": "text"}, "b": 7, "c": _entry("Rain")}
    path = _write(tmp_path, json.dumps(document))
    assert ["ignored"] == [each.id for each in read_corpus(path)]
    reason = 'no "content" with a title and an abstract'
    assert [(1, f"entry 'a': {reason}"), (1, f"entry 'b': {reason}")] == reasons(path)


def test_a_submission_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """Whatever is wrong with it, be it found by the reader or in the checks that all formats share."""
    document = {
        "a": {"content": {"abstract": "It rains."}},
        "b": {"content": {"title": 5, "abstract": "It rains."}},
        "c": _entry("Rain"),
        "d": _entry("Rain"),
    }
    assert [
        (1, "entry 'a': no title"),
        (1, "entry 'b': the title is a number, not a text"),
        (1, "entry 'd': duplicate id 'ignored', first seen at line 1"),
    ] == reasons(_write(tmp_path, json.dumps(document)))


def test_a_document_that_is_cut_short_or_too_large(tmp_path: Path) -> None:
    """A document that is cut short or too large is not read in part."""
    text = json.dumps({"a": _entry("Rain"), "b": _entry("Snow")})
    path = _write(tmp_path, text[:-5])
    report = CorpusReport()
    assert [] == list(read_corpus(path, report=report))
    assert "not valid JSON" in reasons(path)[0][1]
    for most in (len(text), len(text) - 1):
        lines = Lines(io.BufferedReader(io.BytesIO(text.encode())), path)
        rows = OpenReviewReader(max_document_bytes=most).rows(lines)
        if most == len(text):
            assert 2 == len(list(rows))
        else:
            with pytest.raises(BrokenFileError, match="write one paper a line"):
                list(rows)


MAY_2019_MS = 1_557_000_000_000


@pytest.mark.parametrize(
    ("record", "year"),
    [
        ({"content": {"year": {"value": "2018"}}, "cdate": MAY_2019_MS}, 2018),
        ({"content": {"year": 2018.0}}, 2018),
        ({"cdate": MAY_2019_MS, "tcdate": 1_700_000_000_000}, 2019),
        ({"pdate": MAY_2019_MS, "cdate": 1_700_000_000_000}, 2019),
        ({"content": {"year": "soon"}, "pdate": None, "tcdate": MAY_2019_MS}, 2019),
        ({"cdate": -86_400_000_000}, 1967),
        ({"cdate": 10**30, "tcdate": True}, None),
        ({"cdate": 10**14, "tcdate": MAY_2019_MS}, 2019),
        ({}, None),
    ],
)
def test_the_year_is_given_or_that_of_the_first_date(
    tmp_path: Path, record: dict[str, object], year: int | None
) -> None:
    """The year is the one given, else that of the first valid date (publication, creation, entry)."""
    content = {**_entry("Rain")["content"], **record.get("content", {})}  # type: ignore[dict-item]  # both are objects
    path = tmp_path / "~Ada_Quill1.jsonl"
    path.write_text(json.dumps({"id": "a", **record, "content": content}) + "\n", encoding="utf-8")
    (found,) = read_corpus(path)
    assert year == found.year


@pytest.mark.parametrize("version", [1, 2])
def test_ids_of_authors(tmp_path: Path, version: int) -> None:
    """Author ids are kept in both versions of OpenReview's API, and values that are not text are dropped."""
    ids: list[object] = ["~Ada_Quill1", 7]
    content = {"title": "Rain", "abstract": "It rains.", "authorids": ids if version == 1 else {"value": ids}}
    entry = {"content": content}
    (found,) = read_corpus(_write(tmp_path, json.dumps({"a": entry})))
    assert ("~Ada_Quill1",) == found.author_ids
