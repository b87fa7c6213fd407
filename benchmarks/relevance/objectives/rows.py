"""The rows of ``benchmarks.relevance.objectives``: an objective each, and what every row may use."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.types import Precision

TAU, SEED = 0.15, 0


@dataclass(frozen=True, slots=True)
class Budget:
    """What every row may use: examples of each set, and the steps and batch of its run, on a device."""

    n_examples: int
    n_steps: int
    batch: int
    learning_rate: float
    device: str

    @property
    def steps(self) -> dict[str, Any]:
        """The table ``[steps]`` of the configuration; nothing is measured before the end."""
        own = {"n_steps": self.n_steps, "batch": self.batch, "learning_rate": self.learning_rate}
        return {**own, "warm_up": self.n_steps // 8, "measure_every": self.n_steps, "seed": SEED}


@dataclass(frozen=True, slots=True)
class Recipe:
    """One row: an objective with its settings, and the set that it learns from.

    ``mixing`` is how citing sentences are mixed with it.
    """

    objective: Mapping[str, Any]
    mixing: str = ""
    learnt_from: str = "cocited"
    precision: Precision = Precision.FLOAT32


def recipes() -> dict[str, Recipe]:
    """Return the rows by name, the most important ones first."""
    both = {"name": "in-batch", "tau": TAU}
    tau = {"tau": TAU}
    # Margins are in units of distance: the 1 of the publications is for raw vectors, ten times as far apart.
    narrow = {"margin": 0.1}
    return {
        "in-batch, ot": Recipe({**both, "distances": ["ot"]}),
        "ot": Recipe({"name": "ot", **tau}),
        "ts": Recipe({"name": "ts"}),
        "specter": Recipe({"name": "specter"}),
        "mnrl": Recipe({"name": "mnrl"}),
        "in-batch, single": Recipe({**both, "distances": ["single"]}),
        "max": Recipe({"name": "max"}),
        "ot, margin 0.1": Recipe({"name": "ot", **tau, **narrow}),
        "in-batch, ot; mixed alternating": Recipe({**both, "distances": ["ot"]}, "alternating"),
        "in-batch, ot; mixed in-batch": Recipe({**both, "distances": ["ot"]}, "in-batch"),
        "in-batch, ot; mixed sequential": Recipe({**both, "distances": ["ot"]}, "sequential"),
        "in-batch, ot; bfloat16": Recipe({**both, "distances": ["ot"]}, precision=Precision.BFLOAT16),
        "ts-ot": Recipe({"name": "ts-ot", **tau}),
        "attention": Recipe({"name": "attention", **tau}),
        "in-batch, document": Recipe({**both, "distances": ["document"]}),
        "in-batch, mean_min": Recipe({**both, "distances": ["mean_min"]}),
        "in-batch, ot; strict pairs": Recipe({**both, "distances": ["ot"]}, learnt_from="strict"),
        "specter, margin 0.1; citation triplets": Recipe(
            {"name": "specter", **narrow}, learnt_from="citations"
        ),
        "mnrl; citation triplets": Recipe({"name": "mnrl"}, learnt_from="citations"),
        "in-batch, attention": Recipe({**both, "distances": ["attention"]}),
        "specter, margin 0.1": Recipe({"name": "specter", **narrow}),
        "max, margin 0.1": Recipe({"name": "max", **narrow}),
        "attention, margin 0.1": Recipe({"name": "attention", **tau, **narrow}),
        "specter, summed": Recipe({"name": "specter", "mean": False}),
        "specter, summed, margin 0.1": Recipe({"name": "specter", "mean": False, **narrow}),
        "abs": Recipe({"name": "abs"}, learnt_from="abstracts"),
        "abs, margin 0.1": Recipe({"name": "abs", **narrow}, learnt_from="abstracts"),
        "ts, margin 0.1": Recipe({"name": "ts", **narrow}),
        "ts-ot, margin 0.1": Recipe({"name": "ts-ot", **tau, **narrow}),
    }
