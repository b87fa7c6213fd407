"""Papers to vectors and facets, in parts that survive a stop."""
