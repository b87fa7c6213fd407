"""``akin train``: training sets, the configuration of a run, the run and its model card."""
