"""The middleware that every request passes before it reaches its route."""
