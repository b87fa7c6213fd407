"""The benchmark suite: one table of goals, what Akin takes and what its peers take, measured in turns."""
