"""Test collections, one file each; ``evaluation.collection`` lists them."""
