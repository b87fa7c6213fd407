"""Commands that make, change, inspect and serve a collection."""
