"""Citing sentences of full texts: a file for each corpus, and ``full_text``, which they have in common."""
