"""The migrations: one file per change of the schema, numbered in the order in which they are applied."""
