"""Dependencies of endpoints: what they take from a request."""
