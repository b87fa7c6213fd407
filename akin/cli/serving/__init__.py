"""Commands that serve a collection: the service, workers, API keys, and MCP tools."""
