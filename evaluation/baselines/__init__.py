"""Baselines that need no encoder: words, word vectors, and simple classifiers."""
