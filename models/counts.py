"""Counts in words."""


def counted(n: int, noun: str, plural: str = "") -> str:
    """So many of what is named: 1 paper, 2,000 papers; ``plural`` where that is more than an s."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
