"""The model card of a trained encoder."""

from collections.abc import Mapping, Sequence

import orjson

from akin.cli.training.config import RunConfig
from akin.cli.training.figures import RunFigures
from models.training.loop import State

# The files of models trained on an encoder's layers, in its folder.
TAGGER, FUNCTIONS = "facets-trained.safetensors", "functions-trained.safetensors"


def model_card(config: RunConfig, figures: RunFigures, *, commands: Sequence[str]) -> str:
    """Return the card as Markdown; ``commands`` make the encoder."""
    rank, steps = config.low_rank, config.steps
    kind = "all weights" if rank is None else f"low-rank changes (rank {rank.rank}, alpha {rank.alpha:g})"
    data = [
        f"- `{own.name}`: {own.n_examples:,} examples, {own.n_texts:,} texts, weight {own.weight:g}; "
        f"{own.n_drawn:,} drawn ({own.n_drawn / own.n_examples:.2f} epochs); objective "
        f"{_inline(own.objective)}; licence: {own.licence}.{f' {own.left_out}' if own.left_out else ''}"
        for own in figures.sets
    ]
    shares = ", ".join(f"{own:.3f}" for own in figures.layer_shares)
    mix = f"; a learned mix of layers (shares of the embeddings and each layer: {shares})" if shares else ""
    written = orjson.dumps(figures.settings, option=orjson.OPT_INDENT_2).decode().splitlines()
    how = (
        f"`{figures.settings['encoder']}`, trained further: {kind}{mix}, {config.share:g} of the change "
        f"kept. Checkpoint of step {figures.step:,} of {steps.n_steps:,}; {steps.batch * steps.accumulate} "
        f"examples a step, sets mixed: {config.mixing}.{_cost(figures)}"
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
            *_measured(figures, share=config.share),
            *(f"\n{overlap[0].upper()}{overlap[1:]}" for overlap in figures.overlaps),
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


def _cost(figures: RunFigures) -> str:
    """Return a sentence on time and memory, nothing if the run did not count them."""
    cost = figures.cost
    if not cost.n_papers:
        return ""
    return (
        f" Training took {cost.seconds / 60:,.1f} minutes ({cost.device}), without measuring: "
        f"{cost.papers_per_s:,.1f} papers a second, at most {cost.peak_memory_mib:,.0f} MiB of memory."
    )


def _measured(figures: RunFigures, *, share: float) -> list[str]:
    """Return a table by step: mean reciprocal rank and share found first, percent; and the change in all.

    ``share`` is how much of the change is kept: with less than all, other weights were measured.
    """
    measured = [(step, values) for step, values in figures.measured if values]
    if not measured:
        return ["None were measured."]
    names = list(measured[-1][1])
    rows = [["step", *names], ["---", *("---:" for _ in names)]]
    rows += [[f"{step:,}", *(f"{values[name]:.1f}" for name in names)] for step, values in measured]
    table = ["| " + " | ".join(row) + " |" for row in rows]
    before, own = (dict(measured).get(step) for step in (0, figures.step))
    if not (before and own and figures.step):
        return table
    apart = ", ".join(f"{name} {own[name] - before[name]:+.1f}" for name in names)
    mix = ", its mix as it began" if figures.layer_shares else ""
    kept = f" The whole change was measured; this encoder keeps {share:g} of it." if share < 1 else ""
    return [
        *table,
        "",
        f"Step {figures.step:,} minus step 0, the encoder before training{mix}: {apart}.{kept}",
    ]


def reservation(state: State, *, share: float) -> str:
    """Return what to know of an encoder that keeps ``share`` of the change; empty if there is nothing.

    That is that the encoder before training did as well as ``state`` or better, by the figure that chooses
    checkpoints, and that weights with another share were not measured.
    """
    before, own = (next(iter(state.history.figures_at(step).values()), None) for step in (0, state.step))
    if before is None or own is None:
        return ""
    kept = f" The held-out figures are of the whole change; with {share:g} of it not measured." * (share < 1)
    if own > before:
        return kept
    than = "better" if own < before else "as good"
    return f" On the held-out pairs, the encoder before training was {than}.{kept}"


def _inline(objective: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in objective.items())
