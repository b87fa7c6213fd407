"""Relevance, measured as the field does: test collections, measures, systems, honest uncertainty, reports."""
