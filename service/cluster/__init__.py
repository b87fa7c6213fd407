"""Serving on a cluster: the indexes and vectors of a collection on several machines, with Ray."""
