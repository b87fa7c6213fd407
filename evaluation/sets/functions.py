"""Sentence retrieval by rhetorical function: does a sentence find others with the same function?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from evaluation.collection import Collection
from evaluation.sets.files import is_there, json_lines, locate, text_lines
from evaluation.sets.papers import PaperText, to_papers
from evaluation.statistics.summary import Row
from evaluation.systems.sentence_systems import sentence_vectors
from evaluation.systems.vectors import VectorSource
from evaluation.tasks.sentences import MEASURES, SentenceValues, sentence_values
from indexer.corpus.rows import clean
from models.errors import BrokenRowError, EncoderError, InputError
from models.functions import read_metadata
from models.types import Facet, Paper

_BATCH_PAPERS = 256

EncodeSentences = Callable[[Sequence[Paper]], Sequence[Float32[np.ndarray, "n_sentence dim"]]]


# PubMed RCT's labels; conclusions have no facet of their own and state what was found.
_RCT_FACETS = {
    "background": Facet.BACKGROUND,
    "objective": Facet.OBJECTIVE,
    "methods": Facet.METHOD,
    "results": Facet.RESULT,
    "conclusions": Facet.RESULT,
}
_FILES = tuple(f"{side}.{kind}" for kind in ("jsonl", "txt") for side in ("test", "dev", "train"))


@dataclass(frozen=True, slots=True)
class LabelledSentences:
    """Abstracts by id with a label for each sentence; the bootstrap resamples ``clusters``.

    ``n_blank`` abstracts of the file had no sentence and are left out.
    """

    papers: Mapping[str, Paper]
    labels: Mapping[str, tuple[str, ...]]
    clusters: Mapping[str, str]
    n_blank: int


class FunctionsSet:
    """Labelled sentences: each is a query, all others its pool, those with the same label relevant.

    The protocol of Sugimoto and Aizawa (SDP 2022; semantics 4.4), on CSAbstruct, on PubMed RCT or on
    sentences labelled with communicative functions. In a folder, the first file found of test, dev and train
    is read, else all .tsv files together. ``evaluate`` measures; ``load`` returns the labelled abstracts
    without queries, for inspection.
    """

    publisher = (
        "CSAbstruct's authors (github.com/allenai/sequential_sentence_classification, folder data), PubMed "
        "RCT's (github.com/Franck-Dernoncourt/pubmed-rct) or that of communicative functions "
        "(github.com/Alab-NII/FECFevalDataset, folder sentences)"
    )
    layout = """
<folder>/          or one file
  test.jsonl       CSAbstruct (or dev.jsonl, train.jsonl): {"sentences": [texts], "labels": [labels]} on each
                   line; labels: background, objective, method, result, other
  test.txt         PubMed RCT (or dev.txt, train.txt): a line ###ID, then LABEL <TAB> sentence on each line,
                   then an empty line; labels: BACKGROUND, OBJECTIVE, METHODS, RESULTS, CONCLUSIONS
  *.tsv            communicative functions, all files together: function <TAB> phrase <TAB> sentence <TAB>
                   PAPER_s-... on each line
"""

    def load(self, path: Path) -> Collection:
        """Read the labelled abstracts; raises CollectionMissingError or BrokenRowError.

        A sentence has a facet if its label is one.
        """
        labelled = self.labelled(path)
        files = [file.name for file in self.files(path)]
        # The ids of PubMed RCT are those of PubMed.
        prefixes = ("", "pmid:") if files[0].removesuffix(".gz").endswith(".txt") else ("",)
        notes = (f"Sentences of {', '.join(files)}.",)
        return Collection("functions", labelled.papers, (), {}, 1, MEASURES, notes, id_prefixes=prefixes)

    def labelled(self, path: Path) -> LabelledSentences:
        """Read the labelled abstracts with their labels; raises what ``load`` raises."""
        read = {file.name: read_labelled_sentences(file) for file in self.files(path)}
        return next(iter(read.values())) if len(read) == 1 else _together(read)

    def files(self, path: Path) -> list[Path]:
        """Return the files that ``load`` reads; raises CollectionMissingError."""
        if path.is_dir() and not any(is_there(path, name) for name in _FILES):
            tables = sorted([*path.glob("*.tsv"), *path.glob("*.tsv.gz")])
            if tables:
                return tables
        return [self.file(path)]

    def file(self, path: Path) -> Path:
        """Return ``path`` or the first file of abstracts in it; raises CollectionMissingError."""
        return path if path.is_file() else locate(self, path, *_FILES)

    def evaluate(self, path: Path, encode_sentences: EncodeSentences, *, system: str) -> list[Row]:
        """Measure P@1, R-precision and MAP@R over all sentences and over those of each label (as ``facet``).

        ``encode_sentences`` returns one row per sentence of each paper, fewer if the encoder truncates the
        paper; a sentence without a vector is neither a query nor in a pool. Intervals resample abstracts.
        Raises what ``load`` raises, and EncoderError for vectors that do not fit.
        """
        return _measured(self.labelled(path), encode_sentences).rows(system)

    def figures(
        self, path: Path, sources: Sequence[VectorSource], ranked: Sequence[Row], *, functions: Sequence[Path]
    ) -> Iterator[Row]:
        """Yield ``evaluate`` for each way in which each encoder gives sentences vectors.

        Raises InputError for weights in ``functions`` that belong to an encoder not measured.
        """
        labelled = self.labelled(path)
        here = {source.encoder.spec.fingerprint for source in sources}
        if strange := [each for each in functions if read_metadata(each)["encoder"] not in here]:
            raise InputError(
                f"{strange[0]} reads layers of {read_metadata(strange[0])['encoder_name']!r}, which is not "
                "among the measured encoders; name it with --encoder."
            )
        for source in sources:
            for system, found in systems_measured(labelled, source, functions=functions):
                yield from found.rows(system)


def systems_measured(
    labelled: LabelledSentences, source: VectorSource, *, functions: Sequence[Path] = ()
) -> Iterator[tuple[str, SentenceValues]]:
    """Yield each way in which an encoder gives sentences vectors, with the values of all sentences."""
    papers = list(labelled.papers.values())
    for system, vectors in sentence_vectors(papers, source, functions=functions).items():
        of_paper = dict(zip((paper.id for paper in papers), vectors, strict=True))
        yield system, _measured(labelled, partial(_known, of_paper))


def _measured(labelled: LabelledSentences, encode_sentences: EncodeSentences) -> SentenceValues:
    vectors, labels, clusters = _labelled_vectors(labelled, encode_sentences)
    return sentence_values(vectors, labels, clusters)


def _known(
    vectors: Mapping[str, Float32[np.ndarray, "_ dim"]], papers: Sequence[Paper]
) -> list[Float32[np.ndarray, "_ dim"]]:
    return [vectors[paper.id] for paper in papers]


def _labelled_vectors(
    labelled: LabelledSentences, encode_sentences: EncodeSentences
) -> tuple[Float32[np.ndarray, "n_rows dim"], dict[str, str], dict[str, str]]:
    """Return the vectors of all sentences, concatenated, and by sentence its label and its cluster."""
    papers = tuple(labelled.papers.values())
    rows: list[Float32[np.ndarray, "n_sentence dim"]] = []
    labels: dict[str, str] = {}
    clusters: dict[str, str] = {}
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
            for number, label in enumerate(labelled.labels[paper.id][: len(vectors)]):
                labels[f"{paper.id}:{number}"] = label
                clusters[f"{paper.id}:{number}"] = labelled.clusters[paper.id]
    return np.concatenate(rows), labels, clusters


def read_labelled_sentences(file: Path) -> LabelledSentences:
    """Read a file in the format of its name: CSAbstruct's .jsonl, PubMed RCT's .txt, or .tsv.

    Raises BrokenRowError, naming the line, and InputError for a file without a sentence.
    """
    kind = file.name.removesuffix(".gz").rpartition(".")[2]
    read = {"txt": _pubmed_rct, "tsv": _communicative_functions}.get(kind, _csabstruct)
    labels: dict[str, tuple[str, ...]] = {}
    clusters: dict[str, str] = {}
    texts = []
    for text, own, cluster in read(file):
        texts.append(text)
        labels[text.id], clusters[text.id] = tuple(own), cluster
    papers, blank = to_papers(texts)
    if not papers:
        raise InputError(f"{file} holds no labelled sentence; give a file with at least one.")
    return LabelledSentences(papers, labels, clusters, len(blank))


def _together(read: Mapping[str, LabelledSentences]) -> LabelledSentences:
    """Join the sentences of several files; each id begins with the name of its file."""
    papers, labels, clusters = dict[str, Paper](), dict[str, tuple[str, ...]](), dict[str, str]()
    for file, own in read.items():
        for paper in own.papers.values():
            name = f"{file}:{paper.id}"
            papers[name] = replace(paper, id=name)
            labels[name], clusters[name] = own.labels[paper.id], own.clusters[paper.id]
    return LabelledSentences(papers, labels, clusters, sum(own.n_blank for own in read.values()))


# A text, the labels of its sentences, its cluster.
_Read = Iterator[tuple[PaperText, list[str], str]]


def _csabstruct(path: Path) -> _Read:
    for line, record in json_lines(path):
        sentences, labels = record.get("sentences"), record.get("labels")
        if not isinstance(sentences, list) or not isinstance(labels, list) or len(sentences) != len(labels):
            raise BrokenRowError(str(path), line, "expected lists sentences and labels of equal length")
        if odd := [number for number, each in enumerate(sentences, 1) if not isinstance(each, str)]:
            raise BrokenRowError(str(path), line, f"sentence {odd[0]} is not a text")
        if unknown := {str(label) for label in labels} - set(Facet):
            raise BrokenRowError(str(path), line, f"unknown labels {', '.join(sorted(unknown))}")
        # The file numbers every abstract 0, so the line number is the id.
        yield _labelled(f"line:{line}", sentences, labels, [Facet(label) for label in labels])


def _pubmed_rct(path: Path) -> _Read:
    name, rows = "", list[tuple[str, str]]()
    for line, content in text_lines(path):
        label, tab, sentence = content.rstrip("\r\n").partition("\t")
        if label.startswith("###") and not tab:
            yield from _rct_abstract(name, rows)
            name, rows = label.removeprefix("###").strip(), []
        elif label:
            if not name or not tab or label.lower() not in _RCT_FACETS:
                known = ", ".join(_RCT_FACETS).upper()
                raise BrokenRowError(str(path), line, f"neither ###ID nor LABEL <TAB> sentence, of {known}")
            rows.append((sentence, label.lower()))
    yield from _rct_abstract(name, rows)


def _rct_abstract(name: str, rows: Sequence[tuple[str, str]]) -> _Read:
    if rows:
        labels = [label for _, label in rows]
        yield _labelled(name, [text for text, _ in rows], labels, [_RCT_FACETS[label] for label in labels])


def _communicative_functions(path: Path) -> _Read:
    """Yield single sentences, each as a text; sentences of one paper are resampled together."""
    for line, content in text_lines(path):
        if content.isspace():
            continue
        fields = content.rstrip("\r\n").split("\t")
        if len(fields) != 4 or not clean(fields[0]):
            raise BrokenRowError(
                str(path), line, f"{len(fields)} columns; expected function, phrase, sentence, id"
            )
        text, labels, _ = _labelled(f"line:{line}", [fields[2]], [clean(fields[0])], [None])
        yield text, labels, fields[3].partition("_s-")[0]


def _labelled(
    name: str, sentences: Sequence[str], labels: Sequence[object], facets: Sequence[Facet | None]
) -> tuple[PaperText, list[str], str]:
    """Return a text without its empty sentences, which would have no vector."""
    kept = [i for i, sentence in enumerate(sentences) if clean(sentence)]
    text = PaperText(name, "", [sentences[i] for i in kept], [facets[i] for i in kept])
    return text, [str(labels[i]) for i in kept], name
