"""The snapshot: the only code that depends on the format of a collection on disk."""
