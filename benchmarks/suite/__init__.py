"""The benchmark suite: one table of goals, with the cost of Akin and of its peers, measured in turns."""
