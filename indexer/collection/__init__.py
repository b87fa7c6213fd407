"""The commands on a collection, one file each, and what they share; only they take its lock."""
