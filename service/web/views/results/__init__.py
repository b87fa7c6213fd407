"""Results as a page shows them: cards, rows, drawings."""
