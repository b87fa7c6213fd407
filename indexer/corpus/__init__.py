"""Reads the papers of a corpus from files of many formats."""
