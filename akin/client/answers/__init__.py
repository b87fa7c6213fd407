"""What a collection answers, as values: the fields and names are those of the HTTP interface."""
