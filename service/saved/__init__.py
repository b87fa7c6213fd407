"""Queries that are kept under a name, and the papers that are new to them."""
