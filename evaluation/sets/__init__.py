"""Test collections, one file each; ``evaluation.collection`` names them."""
