"""One file per corpus format, each with only what is particular to it."""
