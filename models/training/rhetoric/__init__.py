"""Training of the models that know what a sentence does (rhetorical functions; semantics 4.4)."""
