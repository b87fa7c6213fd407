"""The catalog: the system of record of papers, in SQLite or PostgreSQL."""
