"""The offline part of Akin: from corpora to a catalog and snapshots."""
