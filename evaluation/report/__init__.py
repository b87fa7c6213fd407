"""The report of an evaluation: a page with figures, charts and explained rankings."""
