"""The endpoints of saved queries, with their new papers, and of profiles."""
