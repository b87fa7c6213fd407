"""What routes take from a request."""
