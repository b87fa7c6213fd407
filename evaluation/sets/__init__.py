"""Test collections, one file each; ``evaluation.collection.SETS`` names them."""
