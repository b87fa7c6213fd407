"""Queries saved under a name, and the papers that are new to them."""
