"""``akin train data``: training sets from papers and citing sentences."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from akin.cli.collection.ids import names_in
from akin.cli.collection.lookups import refused_rows
from akin.cli.consoles import stderr, stdout
from akin.cli.progress import show_progress
from akin.cli.training.config import LARGEST_SEED
from akin.cli.training.sets import (
    HELD_OUT,
    expect_place_for_set,
    read_citations,
    read_edges,
    read_papers,
    read_queries,
    with_equal_texts_merged,
    write_set,
)
from evaluation.collection import SETS, papers_used
from indexer.corpus.read import CorpusReport
from models.encoder import load_encoder
from models.errors import InputError
from models.training.examples import Example
from models.training.pairs import alignment
from models.training.pairs.citations import citation_triplets
from models.training.pairs.citing import (
    Citation,
    cocited_papers,
    cociting_sentences,
    contexts_to_documents,
    hold_out,
    training_set,
)
from models.training.pairs.cropping import independent_crops, inverse_cloze
from models.training.pairs.leaks import LeakGuard, left_out
from models.types import Paper

app = typer.Typer(
    help="Make training sets that leave out the papers of test collections (see docs/how-to/training.md).",
    no_args_is_help=True,
)

Papers = Annotated[
    list[Path], typer.Option("--papers", help="Corpus files with the papers, of any format; repeatable.")
]
Citations = Annotated[
    list[Path],
    typer.Option(
        "--citations",
        help='JSON lines: "citing", "context", "cited", "n_cited", or full texts of S2ORC or unarXive; '
        "repeatable.",
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        "--out",
        help="The folder to write to: a new one, or that of an earlier set, which is replaced.",
        file_okay=False,
        callback=expect_place_for_set,
    ),
]
LeaveOut = Annotated[
    list[str] | None,
    typer.Option(
        "--leave-out",
        help=f"Leave out the papers of this test collection, as SET=PATH ({', '.join(SETS)}); repeatable.",
    ),
]
LeaveOutIds = Annotated[
    Path | None,
    typer.Option(
        "--leave-out-ids", help="A file of ids, DOIs or addresses of papers to leave out.", dir_okay=False
    ),
]
HeldOut = Annotated[
    int, typer.Option(min=0, help="Number of examples to hold out for measuring, with all their papers.")
]
_CITED: Final = "check that the cited ids are ids of the papers"
_WHY_NONE: Final = {
    "cocited": f"{_CITED}, and that some sentences cite several of them",
    "sentences": f"{_CITED}, and that several sentences cite the same ones",
    "contexts": f"{_CITED}, and that some sentences cite one alone",
    "citations": "check that the citing and the cited ids are ids of the papers",
    "crops": "check that the papers have abstracts of 10 words or more, and that not all are left out",
    "cloze": "check that the papers have abstracts of three sentences or more, and that not all are left out",
    "queries": "check that the files hold queries, and that not all of them are left out",
}
Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Random seed.")]


@app.command()
def cocited(
    papers: Papers,
    citations: Citations,
    out: Out,
    min_contexts: Annotated[int, typer.Option(min=1, help="Minimum number of citing papers per pair.")] = 1,
    align: Annotated[str | None, typer.Option(help="Encoder that aligns sentences (ts, ts-ot, abs).")] = None,
    align_by: Annotated[
        alignment.AlignBy, typer.Option(help="Align by citing sentences, or by the abstracts alone (abs).")
    ] = alignment.AlignBy.CONTEXTS,
    leave_out: LeaveOut = None,
    leave_out_ids: LeaveOutIds = None,
    held_out: HeldOut = 0,
    seed: Seed = 0,
) -> None:
    """Make pairs of papers that are cited in one sentence, as ASPIRE does."""
    if align is None and align_by is alignment.AlignBy.ABSTRACTS:
        raise InputError("--align-by abstracts needs an encoder that aligns; give it with --align ENCODER.")
    guard, texts, citing = _citing(papers, citations, leave_out, leave_out_ids)
    examples = cocited_papers(citing, texts, min_contexts=min_contexts)
    if align is not None:
        encoder = load_encoder(align)
        with show_progress(stderr) as on_progress:
            examples = alignment.align(examples, texts, encoder, by=align_by, on_progress=on_progress)
    aligned = "" if align is None else f"{align_by}, {Path(align).name}"
    _write(out, "cocited", examples, texts, guard, held_out=held_out, seed=seed, aligned=aligned)


@app.command()
def sentences(
    papers: Papers,
    citations: Citations,
    out: Out,
    leave_out: LeaveOut = None,
    leave_out_ids: LeaveOutIds = None,
    held_out: HeldOut = 0,
    seed: Seed = 0,
) -> None:
    """Make pairs of sentences that cite the same papers, as ASPIRE does for its sentence encoder."""
    guard, texts, citing = _citing(papers, citations, leave_out, leave_out_ids)
    examples, made = cociting_sentences(citing, texts)
    _write(out, "sentences", examples, made, guard, held_out=held_out, seed=seed)


@app.command()
def contexts(
    papers: Papers,
    citations: Citations,
    out: Out,
    leave_out: LeaveOut = None,
    leave_out_ids: LeaveOutIds = None,
    held_out: HeldOut = 0,
    seed: Seed = 0,
) -> None:
    """Make pairs of a citing sentence and the one paper it cites."""
    guard, texts, citing = _citing(papers, citations, leave_out, leave_out_ids)
    examples, sentences = contexts_to_documents(citing, texts)
    _write(out, "contexts", examples, texts | sentences, guard, held_out=held_out, seed=seed)


@app.command()
def citations(
    papers: Papers,
    edges: Annotated[
        list[Path], typer.Option("--edges", help='JSON lines: "citing", "cited" (ids); repeatable.')
    ],
    out: Out,
    hard: Annotated[
        int, typer.Option(min=0, help="Number of hard negatives: papers cited by cited papers.")
    ] = 2,
    easy: Annotated[int, typer.Option(min=0, help="Number of random negatives.")] = 3,
    per_paper: Annotated[int, typer.Option(min=1, help="Maximum number of citations used per paper.")] = 5,
    leave_out: LeaveOut = None,
    leave_out_ids: LeaveOutIds = None,
    held_out: HeldOut = 0,
    seed: Seed = 0,
) -> None:
    """Make triples of a paper, a paper that it cites and some that it does not, as SPECTER does."""
    guard, texts = _guarded(papers, leave_out, leave_out_ids)
    examples = citation_triplets(
        read_edges(edges), texts, n_hard=hard, n_easy=easy, most_per_paper=per_paper, seed=seed
    )
    _write(out, "citations", examples, texts, guard, held_out=held_out, seed=seed)


@app.command()
def crops(
    papers: Papers,
    out: Out,
    leave_out: LeaveOut = None,
    leave_out_ids: LeaveOutIds = None,
    held_out: HeldOut = 0,
    seed: Seed = 0,
) -> None:
    """Make pairs of two crops of one abstract; needs no citations."""
    guard, texts = _guarded(papers, leave_out, leave_out_ids)
    examples, made = independent_crops(texts, seed=seed)
    _write(out, "crops", examples, made, guard, held_out=held_out, seed=seed)


@app.command()
def cloze(
    papers: Papers,
    out: Out,
    leave_out: LeaveOut = None,
    leave_out_ids: LeaveOutIds = None,
    held_out: HeldOut = 0,
    seed: Seed = 0,
) -> None:
    """Make pairs of one sentence and its abstract without it; needs no citations."""
    guard, texts = _guarded(papers, leave_out, leave_out_ids)
    examples, made = inverse_cloze(texts, seed=seed)
    _write(out, "cloze", examples, made, guard, held_out=held_out, seed=seed)


@app.command()
def queries(
    files: Annotated[
        list[Path],
        typer.Option("--queries", help='JSON lines: "query", "positive", "negatives".'),
    ],
    out: Out,
    leave_out: LeaveOut = None,
    leave_out_ids: LeaveOutIds = None,
    held_out: HeldOut = 0,
    seed: Seed = 0,
) -> None:
    """Make pairs of a query and a passage that answers it, with negatives, as in MS MARCO and InPars."""
    examples, texts = read_queries(files)
    guard = _guard(leave_out, leave_out_ids)
    kept = guard.without_leaks(texts)
    clean = [own for own in examples if kept.keys() >= {*own.named}]
    merged = with_equal_texts_merged(clean, kept)
    _write(out, "queries", merged, kept, guard, held_out=held_out, seed=seed)


def _citing(
    papers: list[Path], citations: list[Path], leave_out: list[str] | None, ids: Path | None
) -> tuple[LeakGuard, dict[str, Paper], Iterator[Citation]]:
    """Return the guard and papers of ``_guarded``, and citing sentences of papers that are not left out."""
    guard, texts = _guarded(papers, leave_out, ids)
    return guard, texts, guard.without_leaked_citations(read_citations(citations, texts))


def _guarded(
    papers: list[Path], leave_out: list[str] | None, ids: Path | None
) -> tuple[LeakGuard, dict[str, Paper]]:
    """Return the papers that no evaluation uses, and the guard that counted the others."""
    guard, report = _guard(leave_out, ids), CorpusReport()
    texts = read_papers(papers, report)
    stderr.print(refused_rows(report), soft_wrap=True)
    return guard, guard.without_leaks(texts)


def _guard(leave_out: list[str] | None, ids: Path | None) -> LeakGuard:
    """Return a guard against the papers of evaluations and those of a file of ids."""
    used = (paper for named in leave_out or () for paper in _papers_of(named))
    # The report is part of the set, and cards are published, so no paths of this machine.
    names = [
        f"{name}={Path(path).name}" for name, _, path in (each.partition("=") for each in leave_out or ())
    ]
    names += [] if ids is None else [ids.name]
    return LeakGuard(used, ids=() if ids is None else names_in(ids), named=names)


def _papers_of(named: str) -> Iterator[Paper]:
    name, equals, path = named.partition("=")
    if not equals:
        raise InputError(f"--leave-out {named!r}: expected SET=PATH, such as csfcube=/data/csfcube.")
    return papers_used(name, Path(path))


def _write(
    out: Path,
    recipe: str,
    examples: list[Example],
    texts: dict[str, Paper],
    guard: LeakGuard,
    *,
    held_out: int,
    seed: int,
    aligned: str = "",
) -> None:
    if not examples:
        raise InputError(f"No example was found: {_WHY_NONE[recipe]}.")
    kept, n_found = list[Example](), len(examples)
    if held_out:
        examples, kept = hold_out(examples, n_held_out=held_out, seed=seed)
    report: dict[str, Any] = {
        "recipe": recipe,
        "found": n_found,
        "examples": len(examples),
        "held_out": len(kept),
        "evaluations": guard.named,
        "left_out_by_the_leak_guard": dict(sorted(guard.counts.items())),
        "seed": seed,
    } | ({"aligned": aligned} if aligned else {})
    apart = training_set(f"{out.name}/{HELD_OUT}", kept, texts) if kept else None
    write_set(out, training_set(out.name, examples, texts), report, apart)
    stdout.print(
        f"{len(examples):,} examples in {out}, {len(kept):,} held out. {left_out(guard.counts, guard.named)}",
        soft_wrap=True,
    )
