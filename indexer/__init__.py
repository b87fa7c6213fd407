"""Offline: reads a corpus, writes a snapshot."""
