"""The encoding of papers into vectors and facets, in parts that survive an interruption."""
