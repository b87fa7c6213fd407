"""Resolution of the names and texts that callers give into papers."""
