"""The tests: a folder for each package, and trials, contracts and what they share beside them."""
