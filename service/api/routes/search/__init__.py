"""The endpoints that search: by papers and texts, recommendations, sentences; and abstract analysis."""
