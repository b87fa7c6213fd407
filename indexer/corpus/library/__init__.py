"""What reference managers export, and lists of ids: one file a format, and how their entries are named."""
