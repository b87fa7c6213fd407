"""The suite: measures every test collection present and writes one file, the source of documents' tables."""
