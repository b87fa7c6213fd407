"""The two collections prepared by ASPIRE's authors, in their layout."""
