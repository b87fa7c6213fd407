"""Measurements with a layout of their own, beside rankings of test collections."""
