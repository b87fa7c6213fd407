"""Maintenance of a collection whose papers stay as they are: backup, upgrade, tuning of the search."""
