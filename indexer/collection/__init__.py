"""The operations on a collection, about one file per command: only they take the lock of the collection."""
