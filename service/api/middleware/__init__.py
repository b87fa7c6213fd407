"""What every request passes before it reaches its route."""
