"""Training sets on disk, and the files they are made from: JSON lines, gzipped or not.

A set is a folder with the layout of ``evaluation.sets.pairs``, which reads it. ``report.json`` says how it
was made, and ``held-out/`` has examples to measure on, which share no text with the others.
"""

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from akin.cli.training.full_texts.full_text import names_of
from akin.cli.training.full_texts.layouts import LAYOUTS, citing_sentences, is_full_text
from evaluation.sets.files import JsonObject, json_lines
from evaluation.sets.pairs import EXAMPLES, TEXTS, is_texts
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.files.durable import discard_folder, storage_errors, sync, sync_tree
from models.errors import BrokenRowError, InputError
from models.text.sentences import normalised_text
from models.training.examples import Example, TrainingSet
from models.training.pairs.citing import Citation, short_text
from models.types import Paper

REPORT, HELD_OUT = "report.json", "held-out"
_WRITING = ".writing"
_LEFT_BY_A_STOP = frozenset({_WRITING, f"{HELD_OUT}.discarded"})


def expect_place_for_set(out: Path) -> Path:
    """Return ``out`` if it is new, empty, or contains an earlier set, which a new one replaces.

    Raises InputError for other folders, StorageError.
    """
    with storage_errors(out):
        names = {child.name for child in out.iterdir()} if out.exists() else set()
        if names <= _LEFT_BY_A_STOP or (REPORT in names and _is_of_a_set((out / REPORT).read_bytes())):
            return out
    raise InputError(
        f"--out {out}: the folder is not empty and holds no earlier training set, so nothing was written; "
        "name a new folder, or one that `akin train data` made."
    )


def _is_of_a_set(report: bytes) -> bool:
    try:
        described = orjson.loads(report)
    except orjson.JSONDecodeError:
        return False
    return isinstance(described, dict) and "recipe" in described


def write_set(
    folder: Path, made: TrainingSet, report: Mapping[str, Any], held_out: TrainingSet | None = None
) -> None:
    """Write a set to ``folder`` with its held-out examples; an earlier set there is removed with its own.

    If it is interrupted, examples are never next to the held-out ones of another set: the folder has no
    examples, or all files of one set. Raises StorageError.
    """
    prepared = folder / _WRITING
    with storage_errors(folder):
        shutil.rmtree(prepared, ignore_errors=True)
        prepared.mkdir(parents=True)
        _write_files(prepared, made, report)
        if held_out is not None:
            (prepared / HELD_OUT).mkdir()
            _write_files(prepared / HELD_OUT, held_out, report)
        sync_tree(prepared)
        (folder / EXAMPLES).unlink(missing_ok=True)
        sync(folder)
        discard_folder(folder / HELD_OUT)
        # The report first, which identifies the folder; the examples last, without which it is not a set.
        for name in (REPORT, HELD_OUT, TEXTS, EXAMPLES):
            if (prepared / name).exists():
                (prepared / name).rename(folder / name)
        sync(folder)
        prepared.rmdir()


def _write_files(folder: Path, made: TrainingSet, report: Mapping[str, Any]) -> None:
    (folder / TEXTS).write_bytes(_lines(_as_row(i, paper) for i, paper in made.texts.items()))
    (folder / EXAMPLES).write_bytes(_lines(_as_example(example) for example in made.examples))
    (folder / REPORT).write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2) + b"\n")


def read_citations(paths: Sequence[Path], papers: Mapping[str, Paper]) -> Iterator[Citation]:
    """Yield citing sentences: ``{"citing": id, "context": text, "cited": [ids], "n_cited": n}`` on each line.

    ``n_cited`` is the number of papers that the sentence really cites; by default, the length of ``cited``.
    A line may be a full text of unarXive or S2ORC instead; its sentences cite ``papers`` by any of their ids.
    Raises BrokenRowError.
    """
    named = names_of(papers)
    for path in paths:
        for number, row in json_lines(path):
            if is_full_text(row):
                try:
                    yield from citing_sentences(row, named)
                except InputError as error:
                    raise BrokenRowError(str(path), number, str(error)) from error
                continue
            cited, context = row.get("cited"), row.get("context")
            if not isinstance(context, str) or not is_texts(cited):
                expected = 'expected "context" (a text) and "cited" (ids)'
                others = "" if {"context", "cited"} & row.keys() else f", {LAYOUTS}"
                raise BrokenRowError(str(path), number, f"{expected}{others}")
            n_cited = row.get("n_cited", len(cited))
            if not isinstance(n_cited, int):
                raise BrokenRowError(str(path), number, f'"n_cited" is {n_cited!r}, expected a whole number')
            citing = row.get("citing")
            name = f"{path.name}:{number}" if citing is None else str(citing)
            yield Citation(name, context, tuple(cited), n_cited)


def read_edges(paths: Sequence[Path]) -> dict[str, list[str]]:
    """Read citations: ``{"citing": id, "cited": [ids]}`` on each line; raises BrokenRowError."""
    edges: dict[str, list[str]] = {}
    for path in paths:
        for number, row in json_lines(path):
            citing, cited = row.get("citing"), row.get("cited")
            if not isinstance(citing, str) or not is_texts(cited):
                raise BrokenRowError(str(path), number, 'expected "citing" (an id) and "cited" (ids)')
            edges.setdefault(citing, []).extend(cited)
    return edges


def read_queries(paths: Sequence[Path]) -> tuple[list[Example], dict[str, Paper]]:
    """Read queries with passages (MS MARCO, InPars): ``{"query", "positive", "negatives"}`` on each line.

    Each is a text, or an object with "text" and, if known, "title" and "id"; the leak guard reads the id.
    Returns the examples, and their texts by generated names; raises BrokenRowError.
    """
    examples: list[Example] = []
    texts: dict[str, Paper] = {}
    for path in paths:
        for number, row in json_lines(path):
            negatives = row.get("negatives", [])
            if not isinstance(negatives, list):
                raise BrokenRowError(str(path), number, f'"negatives" is {negatives!r}, expected a list')
            given = [row.get("query"), row.get("positive"), *negatives]
            try:
                named = [_as_text(one) for one in given]
            except InputError as error:
                raise BrokenRowError(str(path), number, str(error)) from error
            names = [name for name, _ in named]
            (_, query), (_, positive), *_ = named
            if _content(query) == _content(positive):
                raise BrokenRowError(str(path), number, "the query is also the positive; leave this line out")
            texts |= dict(named)
            examples.append(Example(names[0], names[1], tuple(names[2:])))
    return examples, texts


def with_equal_texts_merged(examples: Iterable[Example], texts: Mapping[str, Paper]) -> list[Example]:
    """Return the examples with one name for all texts that differ only in id, spacing and letter case.

    Negatives that are equal to the query or to the positive are left out.
    """
    first: dict[tuple[str, str], str] = {}
    name_of = {name: first.setdefault(_content(paper), name) for name, paper in texts.items()}
    merged = []
    for example in examples:
        query, positive = name_of[example.query], name_of[example.positive]
        negatives = dict.fromkeys(name_of[name] for name in example.negatives)
        kept = (name for name in negatives if name not in {query, positive})
        merged.append(Example(query, positive, tuple(kept)))
    return merged


def _content(paper: Paper) -> tuple[str, str]:
    return normalised_text(paper.title), normalised_text(paper.abstract)


def _as_text(given: object) -> tuple[str, Paper]:
    """Return a name for a query or passage, a digest of its content, and the text as a paper.

    Ids are not used as names, because queries and passages may have equal ids. Raises InputError.
    """
    row = given if isinstance(given, dict) else {"text": given}
    title, text, own = row.get("title", ""), row.get("text"), row.get("id", "")
    if not (isinstance(title, str) and isinstance(own, str) and isinstance(text, str) and text.strip()):
        raise InputError(
            'expected "query", "positive" and each of "negatives" as a text, or {"id", "title", "text"}'
        )
    texts = [title, text, own] if own else [title, text]
    name = f"text:{hashlib.sha256(orjson.dumps(texts)).hexdigest()[:16]}"
    return name, replace(short_text(own or name, text), title=title)


def read_papers(paths: Sequence[Path], report: CorpusReport) -> dict[str, Paper]:
    """Return the papers of corpus files of any format, by id; ``report`` records skipped rows."""
    return {paper.id: paper for path in paths for paper in read_corpus(path, report=report)}


def _as_row(name: str, paper: Paper) -> JsonObject:
    return {"id": name, "title": paper.title, "sentences": [sentence.text for sentence in paper.sentences]}


def _as_example(example: Example) -> JsonObject:
    row: JsonObject = {"query": example.query, "positive": example.positive}
    if example.negatives:
        row["negatives"] = list(example.negatives)
    if example.contexts:
        row["contexts"] = list(example.contexts)
    if example.aligned is not None:
        row["aligned"] = list(example.aligned)
    if example.belong:
        row["belong"] = list(example.belong)
    return row


def _lines(rows: Iterable[JsonObject]) -> bytes:
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
