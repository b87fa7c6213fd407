"""The two collections that ASPIRE's authors prepared, in their layout."""
