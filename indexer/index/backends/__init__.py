"""Index backends, one file each; ``indexer.index.vector_index.BACKENDS`` names them."""
