"""How many trials the long ones make, AKIN_TRIALS in place of their own number, drawn anew by AKIN_SEED."""

import os

SEED = int(os.environ.get("AKIN_SEED", "0"))


def trials(usual: int) -> int:
    """So many as were asked for, else ``usual``."""
    return int(os.environ.get("AKIN_TRIALS", usual))
