"""What people keep: saved queries with their news, and profiles."""
