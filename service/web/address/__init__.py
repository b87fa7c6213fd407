"""What the address of a page gives, as a query of the service, and what is wrong with it."""
