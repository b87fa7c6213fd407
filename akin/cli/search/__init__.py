"""Commands that ask a collection or a running service."""
