"""``akin evaluate``: measures retrieval quality and shows the figures."""
