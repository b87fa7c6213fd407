"""``akin evaluate``: measurement of retrieval quality, and display of the figures."""
