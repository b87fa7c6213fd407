"""``akin train``: training of encoders, facet taggers and function encoders."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from akin.cli.commands import RESUMES
from akin.cli.consoles import stderr, stdout
from akin.cli.evaluation.study_scores import facet_tables
from akin.cli.options import Device, refuse_options
from akin.cli.progress import create_parent_folders, show_progress
from akin.cli.training import data
from akin.cli.training.config import read_config
from akin.cli.training.facets import read_all_labelled, train_facets
from akin.cli.training.functions import (
    examples_table,
    find_examples,
    layer_numbers,
    refuse_head_options,
    train_functions,
)
from models.encoder import load_encoder
from models.errors import InputError
from models.training.rhetoric.phrases import PHRASES

if TYPE_CHECKING:
    from akin.cli.training.heads import Heads
    from akin.cli.training.run import Run


class _ConfigOrCommand(TyperGroup):
    """A group that takes a file name for the command ``run``: ``akin train CONFIG.toml``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0].endswith(".toml"):
            args = ["run", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_ConfigOrCommand,
    help="Train an encoder (akin train CONFIG.toml), a facet tagger or a function encoder.",
    no_args_is_help=True,
)
app.add_typer(data.app, name="data")


@app.command(name="run")
def run(
    context: typer.Context,
    config: Annotated[
        Path, typer.Argument(help="The TOML file with the configuration of the run.", dir_okay=False)
    ],
    out: Annotated[
        Path, typer.Option(help="The folder for checkpoints, loss curve and weights.", file_okay=False)
    ],
    device: Device = "auto",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Number of CPU threads. Default: torch's.")
    ] = None,
) -> None:
    """Train an encoder, or resume the run in OUT; `akin train CONFIG.toml` does the same."""
    context.meta[RESUMES] = True
    read = read_config(config)
    # torch takes seconds to import.
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    from akin.cli.training.heads import Heads
    from akin.cli.training.run import ENCODER, Run

    running = Run(read, out, device=device)
    _warn(running)
    with show_progress(stderr) as on_progress:
        heads = Heads(read, on_progress=on_progress)
        running.train(on_progress=on_progress)
    given = ("--device", device) * (device != "auto") + ("--threads", str(threads)) * (threads is not None)
    stdout.print(running.finish(commands=[_train_command(config, out, *given)]), soft_wrap=True)
    _write_heads(heads, out / ENCODER, device=device)


@app.command()
def export(
    config: Annotated[
        Path, typer.Argument(help="The TOML file with the configuration of the run.", dir_okay=False)
    ],
    out: Annotated[Path, typer.Option(help="The folder of the run.", file_okay=False)],
    to: Annotated[Path, typer.Option(help="The new folder of the encoder.", file_okay=False)],
    share: Annotated[
        float, typer.Option(min=0.01, max=1, help="Share of the fine-tuned change to keep (1: all of it).")
    ] = 1.0,
    last: Annotated[
        bool, typer.Option("--last", help="Export the last checkpoint instead of the best one.")
    ] = False,
) -> None:
    """Export a checkpoint of a run as an encoder, even while it trains."""
    from akin.cli.training.heads import Heads
    from akin.cli.training.run import Run

    running = Run(read := read_config(config), out, device="cpu")
    _warn(running)
    given = ("--out", out.name, "--to", to.name, "--share", f"{share:g}")
    exporting = shlex.join(["akin", "train", "export", config.name, *given, *["--last"] * last])
    with show_progress(stderr) as on_progress:
        heads = Heads(read, on_progress=on_progress)
    commands = [_train_command(config, out), exporting]
    stdout.print(running.write(to, share=share, last=last, commands=commands), soft_wrap=True)
    _write_heads(heads, to, device="cpu")


def _warn(running: "Run") -> None:
    """Print overlaps of training sets and held-out pairs to stderr, which make held-out figures too good."""
    for overlap in running.overlaps:
        stderr.print(f"Warning: {overlap}", style="yellow", soft_wrap=True)


def _write_heads(heads: "Heads", encoder: Path, *, device: str) -> None:
    """Train the small models of a run on its ``encoder``, with progress, and print how it went."""
    with show_progress(stderr) as on_progress:
        shown = heads.write(encoder, device=device, on_progress=on_progress)
    for each in shown:
        stdout.print(each, soft_wrap=True)


def _train_command(config: Path, out: Path, *given: str) -> str:
    """Return the command of a run with file names instead of paths, because it is published in a card."""
    return shlex.join(["akin", "train", config.name, "--out", out.name, *given])


@app.command()
def functions(
    context: typer.Context,
    corpora: Annotated[list[Path], typer.Argument(help="Corpus files, plain or gzipped, of any format.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Write the weights to this file; without it, only count.", dir_okay=False),
    ] = None,
    tune_encoder: Annotated[
        Path | None,
        typer.Option(help="Fine-tune the whole encoder instead, into this new folder.", file_okay=False),
    ] = None,
    phrases: Annotated[
        Path, typer.Option(help="Your own list of phrases (TOML).", show_default="Akin's", dir_okay=False)
    ] = PHRASES,
    exclude: Annotated[
        Path | None, typer.Option(help="A file of paper ids to leave out, one per line.", dir_okay=False)
    ] = None,
    encoder: Annotated[str, typer.Option(help="A checkpoint's name or folder.")] = "minilm",
    layers: Annotated[str, typer.Option(help="Hidden layers to read; 0 is the embeddings.")] = "1,2,3,4",
    objective: Annotated[
        str, typer.Option(help="softmax, triplet, arcface, multi-similarity or nt-xent.")
    ] = "softmax",
    per_function: Annotated[int, typer.Option(min=2, help="Maximum number of sentences per function.")] = 300,
    ngram_words: Annotated[
        int, typer.Option(min=2, max=5, help="Minimum number of words of an n-gram (the paper uses 5).")
    ] = 2,
    n_functions: Annotated[
        int | None,
        typer.Option(
            min=2, help="Learn only this many functions, sampled at random, and also measure on the others."
        ),
    ] = None,
    epochs: Annotated[
        int, typer.Option(min=1, help="Epochs; keeps the best on held-out papers (--tune-encoder: the last).")
    ] = 5,
    dim: Annotated[int, typer.Option(min=2, help="Dimension of the function vectors.")] = 128,
    seed: data.Seed = 0,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, help="Number of training runs on the same sentences; writes OUT-seed0, OUT-seed1, ..."
        ),
    ] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="Read at most this many papers.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Cache encoded sentences in this folder.", file_okay=False)
    ] = None,
    device: Device = "auto",
) -> None:
    """Train a function encoder on sentences of CORPORA that use the phrases of a list.

    `akin evaluate functions PATH --functions FILE` measures the result; see docs/how-to/functions.md.
    """
    if out is not None and tune_encoder is not None:
        raise InputError("Give --out or --tune-encoder, not both: a head, or a whole encoder.")
    if tune_encoder is not None:
        refuse_head_options(context)
    create_parent_folders(out)
    # torch takes seconds to import; and invalid settings are found before hours of encoding.
    from models.training.rhetoric import functions as training

    settings = training.HeadSettings(objective=objective, dim=dim, n_epochs=epochs, seed=seed)
    read_layers = layer_numbers(layers)
    with show_progress(stderr) as on_progress:
        found = find_examples(
            corpora,
            phrases,
            exclude=exclude,
            limit=limit,
            per_function=per_function,
            least_words=ngram_words,
            seed=seed,
            on_progress=on_progress,
        )
    stdout.print(examples_table(found))
    if out is None and tune_encoder is None:
        return
    found.require_examples()
    with show_progress(stderr) as on_progress:
        if tune_encoder is not None:
            from models.training.rhetoric import tuning

            tuning.tune_encoder(
                found.mined.examples,
                found.phrases.functions,
                encoder,
                tune_encoder,
                tuning.TuningSettings(objective=objective, n_epochs=epochs, seed=seed),
                device=device,
                on_progress=on_progress,
            )
            message = f"Use it with: --encoder {tune_encoder}"
        if out is not None:
            loaded = load_encoder(encoder, device=device)
            message = train_functions(
                found,
                loaded,
                read_layers,
                settings,
                out=out,
                seeds=seeds,
                n_functions=n_functions,
                cache=cache,
                on_progress=on_progress,
            )
    stdout.print(message, soft_wrap=True)


@app.command()
def facets(
    context: typer.Context,
    labelled: Annotated[
        list[Path],
        typer.Argument(
            help="CSAbstruct's folder (train.jsonl) or PubMed RCT's (train.txt), a file of either layout, "
            "or a corpus whose abstracts have labelled sections, such as PubMed's; repeatable."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Write the weights to this file.", dir_okay=False)],
    encoder: Annotated[str, typer.Option(help="A checkpoint's name or folder.")] = "minilm",
    text_alone: Annotated[
        bool,
        typer.Option(
            "--text-alone",
            help="Use only the words of a sentence: works with every encoder, but is less accurate.",
        ),
    ] = False,
    held_out: Annotated[
        float, typer.Option(min=0, max=0.9, help="Hold out this share of the papers and measure on them.")
    ] = 0.0,
    as_they_begin: Annotated[
        bool,
        typer.Option(
            "--as-they-begin", help="Do not also train on copies of abstracts that start at a later sentence."
        ),
    ] = False,
    seed: data.Seed = 0,
    device: Device = "auto",
) -> None:
    """Train a facet tagger on abstracts with labelled sentences or labelled sections.

    With --held-out, measures it on papers that it was not trained on, next to the tagger that comes with
    Akin. Otherwise measure it with `akin evaluate facets PATH --tagger FILE`. Use it with `akin index
    --tagger FILE`.
    """
    if text_alone:
        refuse_options(context, ("encoder",), "--text-alone reads no encoder's layers; leave out {given}.")
    create_parent_folders(out)
    from models.training import facets as training

    settings = replace(training.SURFACE if text_alone else training.TaggerSettings(), seed=seed)
    papers = read_all_labelled(labelled, held_out=held_out)
    loaded = None if text_alone else load_encoder(encoder, device=device)
    with show_progress(stderr) as on_progress:
        measured = train_facets(
            papers, loaded, settings, out=out, later=not as_they_begin, on_progress=on_progress
        )
    if measured is not None:
        stdout.print(facet_tables(measured))
    advice = "" if measured else f" Measure it with: akin evaluate facets PATH --tagger {out}"
    size = f"{out.stat().st_size / 1e6:.2f} MB"
    stdout.print(
        f"Learnt from {len(papers.learnt):,} abstracts. Wrote {out} ({size}).{advice}",
        soft_wrap=True,
    )
