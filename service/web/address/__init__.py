"""Parsing of a page's address into a query of the service, and the messages for invalid addresses."""
