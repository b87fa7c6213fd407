"""Batches of thousands of searches: scheduler, workers, and the stored queries and results."""
