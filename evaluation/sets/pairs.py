"""Pairs of texts that belong together, such as held-out co-citations; training reads the same layout."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeGuard

from evaluation.collection import Collection, EvalQuery
from evaluation.sets.files import json_lines, locate
from models.errors import BrokenRowError
from models.text.sentences import sentences_from_list
from models.training.examples import Example, TrainingSet, paper_of, related, wrong_in
from models.types import Paper

TEXTS, EXAMPLES = "texts.jsonl", "examples.jsonl"


class PairsSet:
    """Each query ranks all positives; only its own is relevant, and others that belong to it are left out.

    A query without a title is a short text, unless it is also a positive.
    """

    publisher = "`akin train data`, which writes it as held-out/ beside each training set"
    layout = """
<folder>/
  texts.jsonl      {"id", "title", "sentences": [...]} on each line; a short text has the title ""
  examples.jsonl   {"query": id, "positive": id} on each line; training also reads, where they are there,
                   "negatives": [ids], "contexts": [sentences] and "aligned": [i, j] (sentence numbers);
                   "belong": [ids] are further texts that belong to the query, so they are not ranked for it
"""

    def load(self, path: Path) -> Collection:
        """Read the pairs; raises CollectionMissingError, BrokenRowError or InputError."""
        made = read_set(path)
        positives = {example.positive: made.texts[example.positive] for example in made.examples}
        pool = tuple(positives)  # one for all queries: a list for each would take quadratic memory
        of_paper: defaultdict[str, set[str]] = defaultdict(set)
        for name in positives:
            of_paper[paper_of(name)].add(name)
        queries, qrels = [], {}
        for number, example in enumerate(made.examples, start=1):
            paper = made.texts[example.query]
            akin = related(example.query, [made]) & of_paper.keys()
            query = EvalQuery(
                id=f"pair:{number}",
                paper=paper,
                pool=pool,
                cluster=example.query,
                excluded=frozenset().union(*(of_paper[own] for own in akin)) - {example.positive},
                is_text=paper.title == "" and example.query not in positives,
            )
            queries.append(query)
            qrels[query.id] = {example.positive: 1}
        return Collection(
            name=f"pairs/{path.resolve().name}",
            papers=positives,
            queries=tuple(queries),
            qrels=qrels,
            relevant_from=1,
            measures=("RR", "P@1"),
        )


def read_set(folder: Path) -> TrainingSet:
    """Read the training set in ``folder``; raises InputError, BrokenRowError or StorageError."""
    reader = PairsSet()
    texts, examples = (locate(reader, folder, name) for name in (TEXTS, EXAMPLES))
    papers, with_blanks = _texts(texts)
    return TrainingSet(folder.name, papers, tuple(_examples(examples, papers, with_blanks)))


def _texts(path: Path) -> tuple[dict[str, Paper], set[str]]:
    """Return the texts by id, and the ids of those with blank sentences, which are left out of the texts."""
    papers, with_blanks = dict[str, Paper](), set[str]()
    for number, row in json_lines(path):
        name, title, given = row.get("id"), row.get("title", ""), row.get("sentences")
        if not (isinstance(name, str) and isinstance(title, str) and is_texts(given)):
            raise BrokenRowError(str(path), number, 'expected "id", "title" and "sentences" (texts)')
        abstract, sentences = sentences_from_list(given)
        if not sentences:
            raise BrokenRowError(str(path), number, f"the text {name!r} has no sentence")
        if name in papers:
            raise BrokenRowError(str(path), number, f"the id {name!r} occurs twice; keep one of the texts")
        papers[name] = Paper(id=name, title=title, abstract=abstract, sentences=sentences)
        if len(sentences) < len(given):
            with_blanks.add(name)
    return papers, with_blanks


def _examples(path: Path, papers: Mapping[str, Paper], with_blanks: set[str]) -> Iterator[Example]:
    for number, row in json_lines(path):
        aligned = row.get("aligned")
        well = isinstance(row.get("query"), str) and isinstance(row.get("positive"), str)
        lists = [row.get(name, []) for name in ("negatives", "contexts", "belong")]
        pair = aligned is None or (
            isinstance(aligned, list)
            and len(aligned) == 2
            and all(type(i) is int and i >= 0 for i in aligned)
        )
        if not (well and all(is_texts(one) for one in lists) and pair):
            raise BrokenRowError(
                str(path),
                number,
                'expected "query" and "positive" (ids), "negatives", "contexts" and "belong" (lists of '
                'texts) and "aligned" (two sentence numbers, or null)',
            )
        example = Example(
            row["query"],
            row["positive"],
            tuple(lists[0]),
            tuple(lists[1]),
            None if aligned is None else (aligned[0], aligned[1]),
            tuple(lists[2]),
        )
        if wrong := wrong_in(example, papers) or _misaligned(example, papers, with_blanks):
            raise BrokenRowError(str(path), number, wrong)
        yield example


def _misaligned(example: Example, papers: Mapping[str, Paper], with_blanks: set[str]) -> str:
    """Return why the numbers in ``aligned`` mean no sentences of the texts; empty if they do."""
    for name, sentence in zip((example.query, example.positive), example.aligned or (), strict=False):
        if name in with_blanks:
            return f'"aligned" counts sentences of {name!r}, which has blank ones in {TEXTS}; leave those out'
        if name in papers and sentence >= (n := len(papers[name].sentences)):
            return f'"aligned" has sentence {sentence} of {name!r}; its {n} are numbered from 0'
    return ""


def is_texts(given: object) -> TypeGuard[list[str]]:
    """Whether ``given`` is a list of texts."""
    return isinstance(given, list) and all(isinstance(one, str) for one in given)
