"""The systems under comparison: word baselines, and the ways to compare the vectors of encoders."""
