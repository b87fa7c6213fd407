"""The views of results: cards, rows and drawings."""
