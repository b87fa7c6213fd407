"""Training of encoders for retrieval, and of the small models that read an encoder's hidden layers."""
