"""The schemas of saved queries and profiles."""
