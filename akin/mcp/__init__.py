"""``akin mcp``: the search as tools for language models (Model Context Protocol)."""
