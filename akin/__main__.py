"""Lets ``python -m akin`` do what ``akin`` does."""

from akin.cli import app

app()
