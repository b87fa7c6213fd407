"""Index backends, one file each; ``indexer.index.BACKENDS`` names them."""
