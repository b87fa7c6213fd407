"""The web pages: their addresses, the views that their templates read, and their static files."""
