"""What does not work while the service goes on without it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Degradation:
    """``part``, one noun, does not work now; ``detail`` says what follows from it, ``remedy`` what to do.

    All three are read by anybody, without a key: they name no machine, file or user.
    """

    part: str
    detail: str
    remedy: str
