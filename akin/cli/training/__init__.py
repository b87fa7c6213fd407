"""The steps of `akin train`: training sets on disk, the configuration of a run, the run and its card."""
