"""Looks up papers at Crossref, the arXiv and PubMed if only their name is known; only on request."""
