"""The online service: reads a snapshot and answers requests."""
