"""The pages that people see: what their addresses say, what their templates read, and their files."""
