"""The number of trials of long tests (AKIN_TRIALS), their seed (AKIN_SEED), and their printed figures."""

import os

SEED = int(os.environ.get("AKIN_SEED", "0"))


def trials(usual: int) -> int:
    """Return AKIN_TRIALS if it is set, otherwise ``usual``."""
    return int(os.environ.get("AKIN_TRIALS", usual))


def print_figure(figure: object) -> None:
    """Print a figure measured by a trial; ``make trials`` shows it."""
    print(figure, flush=True)  # noqa: T201
