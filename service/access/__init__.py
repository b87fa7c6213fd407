"""Access control: who may do what, how often, and how many at once."""
