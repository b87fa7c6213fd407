"""Relevance evaluation: test collections, measures, systems, confidence intervals and reports."""
