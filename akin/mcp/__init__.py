"""``akin mcp``: search as tools for language models (Model Context Protocol)."""
