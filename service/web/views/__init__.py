"""The data that the page's templates show."""
