"""The served collection: generations, leases, added papers, checks of the files."""
