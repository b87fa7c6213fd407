"""The tests: a folder for each package, and folders for trials, contracts and shared support code."""
