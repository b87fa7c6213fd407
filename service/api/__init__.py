"""The HTTP interface: routes, schemas, middleware, errors."""
