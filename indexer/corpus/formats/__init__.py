"""Readers of corpus formats, one file per format."""
