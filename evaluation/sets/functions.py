"""Sentence retrieval by discourse function: does a sentence find others that do what it does?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Float64, Int64

from evaluation.collection import Collection
from evaluation.sets.files import json_lines, locate
from evaluation.sets.papers import PaperText, to_papers
from evaluation.statistics.bootstrap import intervals
from evaluation.statistics.summary import Row
from evaluation.systems.sentence_systems import sentence_vectors
from evaluation.systems.vectors import VectorSource
from models.errors import BrokenRowError, EncoderError, InputError
from models.functions import read_metadata
from models.types import Facet, Paper

MEASURES = ("MAP@R", "P@1", "Rprec")
# What the similarities of one block of query sentences and their order may take, in bytes.
BLOCK_BYTES = 64 * 1024 * 1024
_BYTES_PER_PAIR = 40  # similarity 4, order 8, the sort's own 8, what is relevant and its precision 20
_BATCH_PAPERS = 256

EncodeSentences = Callable[[Sequence[Paper]], Sequence[Float32[np.ndarray, "n_sentence dim"]]]


class FunctionsSet:
    """CSAbstruct's labelled sentences: each is a query, all the others its pool, those of its label relevant.

    The protocol of Sugimoto and Aizawa (SDP 2022; semantics 4.4), on the one set of labels that is free to
    use. Reads the first file there is of test, dev and train. ``evaluate`` measures; ``load`` gives the
    labelled abstracts without queries, for whoever wants to see them.
    """

    publisher = "CSAbstruct's authors (github.com/allenai/sequential_sentence_classification, folder data)"
    layout = """
<folder>/          or one file
  test.jsonl       {"abstract_id", "sentences": [texts], "labels": [labels]} on each line
                   (or dev.jsonl, train.jsonl); labels: background, objective, method, result, other
"""

    def load(self, path: Path) -> Collection:
        """The labelled abstracts; raises CollectionMissingError or BrokenRowError."""
        file = self.file(path)
        papers, _ = to_papers(_text(record, file, number) for number, record in json_lines(file))
        return Collection("functions", papers, (), {}, 1, MEASURES, (f"Sentences of {file.name}.",))

    def file(self, path: Path) -> Path:
        """What ``load`` reads: ``path`` itself, or the first file there is; raises CollectionMissingError."""
        return path if path.is_file() else locate(self, path, "test.jsonl", "dev.jsonl", "train.jsonl")

    def evaluate(self, path: Path, encode_sentences: EncodeSentences, *, system: str) -> list[Row]:
        """P@1, R-precision and MAP@R over all sentences and over those of each label (as ``facet``).

        ``encode_sentences`` gives the vectors of each paper's first sentences, one row for each, fewer where
        it reads no further; a sentence without a vector neither asks nor answers. Intervals resample
        abstracts. Raises what ``load`` raises, and EncoderError for vectors that do not fit.
        """
        papers = tuple(self.load(path).papers.values())
        vectors, labels, clusters = _labelled_vectors(papers, encode_sentences)
        values = retrieval_by_label(vectors, np.unique(labels, return_inverse=True)[1])
        rows = []
        for facet in ("all", *sorted(set(labels))):
            kept = [i for i, label in enumerate(labels) if facet in {"all", label}]
            table = {measure: {str(i): float(values[measure][i]) for i in kept} for measure in MEASURES}
            for measure, found in intervals(table, {str(i): clusters[i] for i in kept}).items():
                figures = (found.value, found.low, found.high, found.n)
                rows.append(Row("functions", system, facet, "all", measure, *figures))
        return rows

    def figures(
        self, path: Path, sources: Sequence[VectorSource], ranked: Sequence[Row], *, functions: Sequence[Path]
    ) -> Iterator[Row]:
        """``evaluate`` for each way in which each encoder gives sentences vectors.

        Raises InputError for weights of ``functions`` that read another encoder.
        """
        papers = list(self.load(path).papers.values())
        here = {source.encoder.spec.fingerprint for source in sources}
        if strange := [each for each in functions if read_metadata(each)["encoder"] not in here]:
            raise InputError(
                f"{strange[0]} reads layers of {read_metadata(strange[0])['encoder_name']!r}, which is not "
                "measured here; name it with --encoder."
            )
        for source in sources:
            for system, vectors in sentence_vectors(papers, source, functions=functions).items():
                of_paper = dict(zip((paper.id for paper in papers), vectors, strict=True))
                yield from self.evaluate(path, partial(_known, of_paper), system=system)


def _known(
    vectors: Mapping[str, Float32[np.ndarray, "n_sentence dim"]], papers: Sequence[Paper]
) -> list[Float32[np.ndarray, "n_sentence dim"]]:
    return [vectors[paper.id] for paper in papers]


def retrieval_by_label(
    vectors: Float32[np.ndarray, "n_rows dim"],
    labels: Int64[np.ndarray, " n_rows"],
    *,
    block_bytes: int = BLOCK_BYTES,
) -> Mapping[str, Float64[np.ndarray, " n_rows"]]:
    """MEASURES of each row as a query to all the others by cosine, in percent; equal ones in their order.

    With R others of the query's label: P@1; Rprec, the precision at rank R; MAP@R, the sum over the relevant
    ranks i <= R of the precision at i, divided by R (Musgrave et al., ECCV 2020). A query whose
    label no other row has scores 0. Queries are taken in blocks of about ``block_bytes`` of memory.
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    n_rows = len(unit)
    n_relevant = np.bincount(labels)[labels] - 1
    values = {measure: np.zeros(n_rows) for measure in MEASURES}
    n_block = max(1, block_bytes // (_BYTES_PER_PAIR * max(n_rows, 1)))
    for start in range(0, n_rows, n_block):
        block = np.arange(start, min(start + n_block, n_rows))
        similarity = unit[block] @ unit.T  # (n_block, n_rows)
        similarity[np.arange(len(block)), block] = -np.inf  # itself ranks last, past every R
        order = np.argsort(-similarity, axis=1, kind="stable")
        depth = max(int(n_relevant[block].max()), 1)
        relevant = labels[order[:, :depth]] == labels[block, None]  # (n_block, depth)
        counted = relevant & (np.arange(depth) < n_relevant[block, None])
        precision = np.cumsum(counted, axis=1) / np.arange(1, depth + 1)
        r = np.maximum(n_relevant[block], 1)
        values["P@1"][block] = 100.0 * counted[:, 0]
        values["Rprec"][block] = 100.0 * counted.sum(axis=1) / r
        values["MAP@R"][block] = 100.0 * (precision * counted).sum(axis=1) / r
    return values


def _labelled_vectors(
    papers: Sequence[Paper], encode_sentences: EncodeSentences
) -> tuple[Float32[np.ndarray, "n_rows dim"], list[str], list[str]]:
    """The vectors of all sentences end to end, with the label and the abstract of each."""
    rows: list[Float32[np.ndarray, "n_sentence dim"]] = []
    labels: list[str] = []
    clusters: list[str] = []
    for start in range(0, len(papers), _BATCH_PAPERS):
        batch = papers[start : start + _BATCH_PAPERS]
        encoded = encode_sentences(batch)
        if len(encoded) != len(batch):
            raise EncoderError(
                f"Vectors of {len(encoded)} papers came back for {len(batch)}; expected one each."
            )
        for paper, vectors in zip(batch, encoded, strict=True):
            if len(vectors) > len(paper.sentences):
                raise EncoderError(
                    f"{len(vectors)} vectors for the {len(paper.sentences)} sentences of {paper.id!r}; "
                    "this set needs an encoder of sentences."
                )
            rows.append(np.asarray(vectors, dtype=np.float32))
            labels.extend(str(sentence.facet) for sentence in paper.sentences[: len(vectors)])
            clusters.extend([paper.id] * len(vectors))
    return np.concatenate(rows), labels, clusters


def _text(record: Mapping[str, object], path: Path, line: int) -> PaperText:
    sentences, labels = record.get("sentences"), record.get("labels")
    if not isinstance(sentences, list) or not isinstance(labels, list) or len(sentences) != len(labels):
        raise BrokenRowError(str(path), line, "no sentences and labels of one length")
    if unknown := {str(label) for label in labels} - set(Facet):
        raise BrokenRowError(str(path), line, f"unknown labels {', '.join(sorted(unknown))}")
    # The file numbers every abstract 0; its line tells them apart.
    return PaperText(f"line:{line}", "", [str(s) for s in sentences], [Facet(label) for label in labels])
