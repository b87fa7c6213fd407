"""The words of the papers of a collection: their counts in each paper, and their rarity in all papers."""
