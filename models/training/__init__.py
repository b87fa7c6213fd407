"""Trains the small models that read an encoder's hidden layers."""
