"""The snapshot: the only code that knows how a collection lies on the disk."""
