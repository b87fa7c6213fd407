"""The data recipes: training examples from papers, from citations, and from citing sentences."""
