"""What needs no encoder of ours: words, word vectors, and simple classifiers to be beaten."""
