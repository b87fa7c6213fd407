"""The steps of ``akin train functions``: read labelled sentences, compute features, train, write weights."""

import hashlib
import io
import math
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from akin.cli.collection.ids import read_ids
from akin.cli.options import refuse_options
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.files.durable import replace_file, storage_errors
from models.checksums import sha256_of
from models.encoder import Encoder
from models.errors import InputError
from models.functions import weights_content
from models.training.rhetoric.phrases import MinedExamples, PhraseList, mine, read_phrases
from models.types import Paper, ProgressFn

_MAX_SHOWN = 10
# Options of `akin train functions` that do not apply to a whole encoder.
_OF_HEADS = ("seeds", "n_functions", "dim", "layers", "cache")
_TELL_EVERY = 1_000  # papers
# The arrays of a cache file.
_FEATURES = ("rows", "labels", "papers", "alone")


@dataclass(frozen=True, slots=True)
class FoundExamples:
    """The sentences of a corpus with phrases of a list; ``n_excluded`` papers were left out by id."""

    phrases: PhraseList
    phrases_sha256: str
    mined: MinedExamples
    per_function: int
    least_words: int
    report: CorpusReport
    n_excluded: int

    def require_examples(self) -> None:
        """Raise InputError if a function has fewer than two sentences to learn from."""
        if poor := [function for function, n_found in self.mined.n_found.items() if n_found < 2]:
            raise InputError(
                f"Fewer than two sentences of {', '.join(poor)}; give more text or other phrases."
            )


def find_examples(
    corpora: Sequence[Path],
    phrases: Path,
    *,
    exclude: Path | None,
    limit: int | None,
    per_function: int,
    least_words: int,
    seed: int,
    on_progress: ProgressFn,
) -> FoundExamples:
    """Search ``corpora`` for the phrases of a list; ``exclude`` is a file of paper ids to leave out.

    At most ``limit`` papers are searched, and ``per_function`` sentences of each function kept. N-grams have
    at least ``least_words`` words.
    Raises InputError or StorageError for files that cannot be read.
    """
    phrase_list, report = read_phrases(phrases, least_words=least_words), CorpusReport()
    left_out: Counter[str] = Counter()
    excluded = frozenset(() if exclude is None else read_ids(exclude))

    def papers() -> Iterator[Paper]:
        for corpus in corpora:
            for paper in read_corpus(corpus, report=report):
                if report.papers % _TELL_EVERY == 1:
                    on_progress("searching", report.papers - 1, None)
                if paper.id in excluded:
                    left_out[paper.id] += 1
                else:
                    yield paper

    mined = mine(islice(papers(), limit), phrase_list, per_function=per_function, seed=seed)
    return FoundExamples(
        phrase_list, sha256_of(phrases), mined, per_function, least_words, report, left_out.total()
    )


def refuse_head_options(context: typer.Context) -> None:
    """Raise InputError if an option is given that does not apply to a whole encoder."""
    message = "Only heads are trained with {given}; leave it out with --tune-encoder."
    refuse_options(context, _OF_HEADS, message)


def layer_numbers(layers: str) -> tuple[int, ...]:
    """Parse the numbers in ``1,2,3``; raises InputError."""
    try:
        return tuple(int(number) for number in layers.split(","))
    except ValueError as error:
        raise InputError(f"--layers {layers!r}: give numbers separated by commas, such as 1,2,3.") from error


def examples_table(found: FoundExamples) -> Group:
    """Render the sentences found for each function, and what was left out."""
    mined, phrases = found.mined, found.phrases
    kept = Counter(example.function for example in mined.examples)
    ngrams = Counter(phrases.ngrams.values())
    table = Table("function", box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("n-grams", "sentences", "kept"):
        table.add_column(heading, justify="right")
    for function in phrases.functions:
        counts = (ngrams[function], mined.n_found[function], kept[function])
        table.add_row(function, *(f"{count:,}" for count in counts))
    n_papers, clear = found.report.papers - found.n_excluded, sum(mined.n_found.values())
    lines = [f"{mined.n_sentences:,} sentences of {n_papers:,} papers; {found.n_excluded:,} papers left out."]
    lines.append(
        f"{clear:,} hold phrases of one function, {mined.n_unclear:,} of several: those are left out."
    )
    if found.report.broken:
        lines.append(f"{found.report.broken:,} broken rows, the first: {found.report.broken_rows[0]}")
    if shared := phrases.ambiguous:
        named = [f"{' '.join(ngram)} ({', '.join(owners)})" for ngram, owners in sorted(shared.items())]
        more = ", ..." if len(named) > _MAX_SHOWN else ""
        shown = ", ".join(named[:_MAX_SHOWN]) + more
        lines.append(f"{len(shared):,} n-grams of several functions dropped: {shown}")
    return Group(table, *(Text(line) for line in lines))


def train_functions(
    found: FoundExamples,
    encoder: Encoder,
    layers: tuple[int, ...],
    settings: Any,
    *,
    out: Path,
    seeds: int,
    n_functions: int | None,
    cache: Path | None,
    on_progress: ProgressFn,
) -> str:
    """Train heads with ``settings`` (HeadSettings), write their weights, and return a report.

    With several ``seeds``, each has a file (``file_of_seed``). Only sentences of ``n_functions`` functions,
    drawn by the seed, are learnt from; None: of all. Raises InputError.
    """
    from models.training.rhetoric import functions as training

    names = found.phrases.functions
    if n_functions is not None and not 2 <= n_functions < len(names):
        raise InputError(
            f"{n_functions} functions to learn from: expected 2 to {len(names) - 1} of the {len(names)}."
        )
    training.require_dim(settings, len(layers) * encoder.spec.dim)
    features = _features(found, encoder, layers, cache=cache, on_progress=on_progress)
    lines, map_learnt, map_others = [], [], []
    for seed in range(settings.seed, settings.seed + seeds):
        own = replace(settings, seed=seed)
        drawn = np.random.default_rng(seed).permutation(len(names))[:n_functions]
        learnt = np.sort(drawn)
        known = training.of_labels(features, learnt.tolist())
        trained = training.train_head(known, own, measure=_map_at_r, on_progress=on_progress)
        metadata = {
            "encoder": encoder.spec.fingerprint,
            "encoder_name": encoder.spec.name,
            "layers": layers,
            "functions": [names[i] for i in learnt],
            "phrases_sha256": found.phrases_sha256,
            "n_examples": len(found.mined.examples),
            "per_function": found.per_function,
            "least_words": found.least_words,
            **asdict(own),
        }
        file = file_of_seed(out, seed, seeds=seeds)
        content = weights_content(trained.head, metadata)
        with storage_errors(file):
            replace_file(file, content)
        map_learnt.append(trained.held_out[trained.kept])
        why = f"MAP@R {map_learnt[-1]:.1f} by the {len(learnt)} functions, on papers held out."
        if np.isnan(map_learnt[-1]):
            why = "no function has two sentences on the papers held out, so none could be measured."
        lines.append(
            f"Kept epoch {trained.kept + 1} of {settings.n_epochs}: {why} "
            f"Wrote {file} ({len(content) / 1e6:.2f} MB)."
        )
        if n_functions is not None:
            others = ~np.isin(features.labels, learnt)
            map_others.append(training.score_head(trained.head, features, others, _map_at_r))
            lines.append(
                f"MAP@R {map_others[-1]:.1f} by the {len(names) - len(learnt)} functions not learnt from."
            )
    if seeds > 1:
        lines.append(f"Over {seeds} seeds, functions learnt from: MAP@R {_spread(map_learnt)}.")
        if map_others:
            lines.append(f"Over {seeds} seeds, functions not learnt from: MAP@R {_spread(map_others)}.")
    return "\n".join(lines)


def file_of_seed(out: Path, seed: int, *, seeds: int) -> Path:
    """Return the file of the weights of ``seed``: ``out``, with ``-seedN`` in its name if ``seeds`` > 1."""
    return out if seeds == 1 else out.with_name(f"{out.stem}-seed{seed}{out.suffix}")


def _spread(values: Sequence[float]) -> str:
    """Return mean and standard deviation as text."""
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"


def _map_at_r(vectors: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean MAP@R, in percent, with each row as a query against all other rows.

    Rows whose label no other row has are no queries; NaN if no row is one.
    """
    from evaluation.tasks import sentences as retrieval

    has_others = np.bincount(labels)[labels] > 1
    values = retrieval.retrieval_by_label(vectors, labels)["MAP@R"][has_others]
    return float(values.mean()) if has_others.any() else math.nan


def _features(
    found: FoundExamples,
    encoder: Encoder,
    layers: tuple[int, ...],
    *,
    cache: Path | None,
    on_progress: ProgressFn,
) -> Any:
    """Return the ``Features`` of the examples, from ``cache`` if they are there; raises InputError."""
    from models.training.rhetoric import functions as training

    names, examples = found.phrases.functions, found.mined.examples
    content = [
        (e.paper.title, [sentence.text for sentence in e.paper.sentences], e.sentence, e.function)
        for e in examples
    ]
    made_from = orjson.dumps([content, names, encoder.spec.fingerprint, layers])
    kept = None if cache is None else cache / f"functions-{hashlib.sha256(made_from).hexdigest()[:16]}.npz"
    if kept is not None and kept.is_file():
        try:
            with storage_errors(kept), np.load(kept) as arrays:
                return training.Features(*(arrays[name] for name in _FEATURES))
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(f"{kept} is damaged ({error}); delete it and run again.") from error
    features = training.encode_examples(examples, names, encoder, layers=layers, on_progress=on_progress)
    if kept is not None:
        stream = io.BytesIO()
        np.savez(stream, **{name: getattr(features, name) for name in _FEATURES})
        with storage_errors(kept):
            kept.parent.mkdir(parents=True, exist_ok=True)
            replace_file(kept, stream.getvalue())
    return features
