"""Asking: searches by papers and texts, recommendations, sentences, and what an abstract says."""
