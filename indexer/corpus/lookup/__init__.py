"""Papers of which only the name is known, asked of Crossref, the arXiv and PubMed, if at all."""
