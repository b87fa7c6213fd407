"""The model card of a trained encoder."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import orjson
from pydantic import BaseModel, ValidationError

from akin.cli.training.config import RunConfig
from akin.cli.training.sets import REPORT
from models.training.examples import TrainingSet
from models.training.loop import State
from models.training.pairs.leaks import left_out

# Settings with paths, which are left out: a card is published, the paths of a machine are not.
_WITH_PATHS = {"sets", "held_out", "facets", "functions"}
# The files of models trained on an encoder's layers, in its folder.
TAGGER, FUNCTIONS = "facets-trained.safetensors", "functions-trained.safetensors"


class _Report(BaseModel):
    """What the report of a recipe says of the papers that it left out."""

    left_out_by_the_leak_guard: dict[str, int] = {}
    evaluations: list[str] | None = None


def model_card(
    config: RunConfig,
    sets: Sequence[TrainingSet],
    state: State,
    *,
    drawn: Sequence[int],
    commands: Sequence[str],
    overlaps: Sequence[str] = (),
) -> str:
    """Return the card as Markdown; ``config.share`` is how much of the change the encoder has.

    ``state`` is the exported checkpoint, ``drawn`` the number of examples of each set that it was trained
    on, repeated ones included. ``commands`` make the encoder, ``overlaps`` say what training sets and
    held-out pairs have in common.
    """
    rank, steps = config.low_rank, config.steps
    kind = "all weights" if rank is None else f"low-rank changes (rank {rank.rank}, alpha {rank.alpha:g})"
    data = [
        f"- `{own.path.name}`: {len(made.examples):,} examples, {len(made.texts):,} texts, weight "
        f"{own.weight:g}; {seen:,} drawn ({seen / len(made.examples):.2f} epochs); objective "
        f"{_inline(own.objective)}; licence: {own.licence}.{_left_out(own.path)}"
        for own, made, seen in zip(config.sets, sets, drawn, strict=True)
    ]
    encoder = Path(config.encoder).name  # the name of a checkpoint is unchanged
    settings = {
        **config.model_dump(mode="json", exclude=_WITH_PATHS, exclude_none=True),
        "encoder": encoder,
    }
    written = orjson.dumps(settings, option=orjson.OPT_INDENT_2).decode().splitlines()
    how = (
        f"`{encoder}`, trained further: {kind}, {config.share:g} of the change kept. Checkpoint of "
        f"step {state.step:,} of {steps.n_steps:,}; {steps.batch * steps.accumulate} examples a step, sets "
        f"mixed: {config.mixing}."
    )
    lines = [
        f"# {config.name}",
        "",
        how,
        "",
        *(*(f"    {command}" for command in commands), "") * bool(commands),
        *("## Data", "", *data, ""),
        *_small_models(config),
        *(
            "## Held-out pairs",
            "",
            *_measured(state),
            *(f"\n{overlap[0].upper()}{overlap[1:]}" for overlap in overlaps),
            "",
        ),
        *("## Configuration", "", *(f"    {line}" for line in written)),
    ]
    return "\n".join(lines) + "\n"


def _small_models(config: RunConfig) -> list[str]:
    """Return the section on the small models in the folder and their training data, empty without any."""
    made = []
    if config.facets is not None:
        made.append(("facet tagger", TAGGER, config.facets.labelled, ""))
    if (own := config.functions) is not None:
        how = f"; objective {own.objective}, n-grams of {own.ngram_words} words or more"
        made.append(("encoder of rhetorical functions", FUNCTIONS, own.corpora, how))
    lines = [
        f"- `{file}`: {what} that reads this encoder's layers, trained on "
        f"{', '.join(f'`{path.name}`' for path in paths)}{how}."
        for what, file, paths, how in made
    ]
    return ["## Small models", "", *lines, ""] if lines else []


def _measured(state: State) -> list[str]:
    """Return a table by step: mean reciprocal rank and share found first, percent; and the change in all."""
    measured = [(step, figures) for step, figures in state.history.measured if figures]
    if not measured:
        return ["None were measured."]
    names = list(measured[-1][1])
    rows = [["step", *names], ["---", *("---:" for _ in names)]]
    rows += [[f"{step:,}", *(f"{figures[name]:.1f}" for name in names)] for step, figures in measured]
    table = ["| " + " | ".join(row) + " |" for row in rows]
    before, own = (state.history.figures_at(step) for step in (0, state.step))
    if not (before and own and state.step):
        return table
    apart = ", ".join(f"{name} {own[name] - before[name]:+.1f}" for name in names)
    return [*table, "", f"Step {state.step:,} minus step 0, the encoder before training: {apart}."]


def reservation(state: State) -> str:
    """Return a sentence if the encoder before training did as well as ``state`` or better, else nothing.

    The figure that chooses checkpoints decides.
    """
    before, own = (next(iter(state.history.figures_at(step).values()), None) for step in (0, state.step))
    if before is None or own is None or own > before:
        return ""
    return (
        f" On the held-out pairs, the encoder before training was {'better' if own < before else 'as good'}."
    )


def _left_out(folder: Path) -> str:
    report = folder / REPORT
    if not report.is_file():
        return ""
    with suppress(orjson.JSONDecodeError, ValidationError):  # such as one written by hand
        found = _Report.model_validate(orjson.loads(report.read_bytes()))
        return f" {left_out(found.left_out_by_the_leak_guard, found.evaluations)}"
    return ""


def _inline(objective: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in objective.items())
