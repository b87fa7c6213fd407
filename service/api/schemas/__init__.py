"""The shapes of requests and responses under ``/v1``: strict, and the source of the OpenAPI document."""
