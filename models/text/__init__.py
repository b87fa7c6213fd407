"""Texts: sentences with offsets, words as they are compared, languages."""
