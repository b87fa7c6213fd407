"""Training of the models of rhetorical functions, which describe what a sentence does (semantics 4.4)."""
