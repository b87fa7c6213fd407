"""Evaluation tasks, each a value that implements the protocol in ``tasks.task``."""
