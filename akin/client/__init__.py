"""The Python client of a running service."""
