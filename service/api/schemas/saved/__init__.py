"""The shapes of what people keep."""
