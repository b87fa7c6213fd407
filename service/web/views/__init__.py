"""What the page's templates show, as data."""
