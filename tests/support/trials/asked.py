"""How many trials the long ones make (AKIN_TRIALS), drawn anew by AKIN_SEED, and what they tell."""

import os

SEED = int(os.environ.get("AKIN_SEED", "0"))


def trials(usual: int) -> int:
    """So many as were asked for, else ``usual``."""
    return int(os.environ.get("AKIN_TRIALS", usual))


def tell(figure: object) -> None:
    """Prints what a trial measured: ``make trials`` shows it."""
    print(figure, flush=True)  # noqa: T201
