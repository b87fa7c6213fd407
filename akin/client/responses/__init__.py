"""The answers of a service or a collection as Python values, with the field names of the HTTP interface."""
