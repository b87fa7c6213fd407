"""Commands that search a collection or a running service."""
