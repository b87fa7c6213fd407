"""Tests of the Python in docs/adding: the examples for contributors work."""

import importlib
import inspect
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from evaluation.collection import CollectionReader
from indexer.corpus.read import READERS, CorpusReader, CorpusReport, read_corpus
from indexer.corpus.source import read_head
from indexer.index.vector_index import BACKENDS
from models.errors import CollectionMissingError
from models.registry import resolve
from tests.support.builds import ROOT
from tests.support.documents import python_blocks
from tests.support.examples.corpus_examples import CORPORA, EXAMPLES

ADDING = ROOT / "docs" / "adding"


def written(page: str, module: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the first Python block of a page as a module of this name."""
    made = ModuleType(module)
    monkeypatch.setitem(sys.modules, module, made)
    exec(compile(python_blocks(ADDING / page)[0], page, "exec"), made.__dict__)  # noqa: S102 - ours
    return made


def test_the_reader_of_the_page_reads_its_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example reader, registered as the page says, reads its own format and recognises no other."""
    written("reader.md", "indexer.corpus.formats.example", monkeypatch)
    names: dict[str, Any] = {}
    exec(compile(python_blocks(ADDING / "reader.md")[1], "registry", "exec"), names)  # noqa: S102 - ours
    readers = {**READERS, **names["READERS"]}
    rows = [{"key": n, "name": f"Paper {n}", "summary": "Floods rise. They fall."} for n in (1, 3)]
    file = tmp_path / "example.jsonl"
    lines = [json.dumps(rows[0]), '{"key": 2, "summary": "No title."}', json.dumps(rows[1])]
    file.write_text("\n".join(lines), encoding="utf-8")
    reader = resolve(readers, "example", "corpus format")()
    assert isinstance(reader, CorpusReader)
    for name in READERS:
        assert not reader.recognises(read_head(CORPORA / EXAMPLES[name].file)), name
        assert not resolve(READERS, name, "corpus format")().recognises(read_head(file)), name
    monkeypatch.setattr("indexer.corpus.read.READERS", readers)
    report = CorpusReport()
    papers = list(read_corpus(file, report=report))
    assert ["example:1", "example:3"] == [paper.id for paper in papers]
    assert [2] == [broken.line for broken in report.broken_rows]


def test_the_collection_of_the_page_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example collection reads its layout, and names the download if it is missing."""
    reader = written("collection.md", "evaluation.sets.example", monkeypatch).ExampleSet()
    assert isinstance(reader, CollectionReader)
    with pytest.raises(CollectionMissingError, match=r"https://example\.org/relevance"):
        reader.load(tmp_path)
    papers = [{"id": name, "title": f"Paper {name}", "abstract": "Floods rise."} for name in "abc"]
    (tmp_path / "papers.jsonl").write_text("\n".join(map(json.dumps, papers)), encoding="utf-8")
    (tmp_path / "judged.json").write_text(json.dumps({"a": {"b": 1, "c": 0}}), encoding="utf-8")
    collection = reader.load(tmp_path)
    (query,) = collection.queries
    assert (["a", "b", "c"], ("b", "c")) == (sorted(collection.papers), query.pool)
    assert {"a": {"b": 1, "c": 0}} == collection.qrels


def test_the_backend_of_the_page_has_the_methods_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example backend has the methods and parameters of every registered backend."""
    monkeypatch.setattr("builtins.ignore_progress", None, raising=False)  # the name that the page only calls
    mine = written("backend.md", "indexer.index.backends.mine", monkeypatch).MyIndex
    shown = {name: method for name, method in vars(mine).items() if not name.startswith("__")}
    assert {"build", "load", "save", "search"} == set(shown)
    for where in BACKENDS.values():
        module, _, kind = where.partition(":")
        theirs = getattr(importlib.import_module(module), kind)
        for name in shown:
            expected = list(inspect.signature(getattr(theirs, name)).parameters)
            assert expected == list(inspect.signature(getattr(mine, name)).parameters), (where, name)
