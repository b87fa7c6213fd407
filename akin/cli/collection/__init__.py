"""Commands that create, change and inspect a collection."""
