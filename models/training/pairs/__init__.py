"""Every data recipe: what makes training examples of papers, of who cites whom, and of what is said then."""
