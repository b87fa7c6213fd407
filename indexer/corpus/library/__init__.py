"""Formats of reference managers and lists of ids, one file per format, and the names of their entries."""
