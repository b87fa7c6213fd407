"""The core, without HTTP: from a query to ranked, explained papers."""
