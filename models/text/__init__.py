"""Texts: sentences with offsets, words normalised for comparison, languages."""
