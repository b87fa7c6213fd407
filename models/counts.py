"""Counts in words."""


def counted(n: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: 1 paper, 2,000 papers; ``plural`` is needed if an s does not suffice."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
