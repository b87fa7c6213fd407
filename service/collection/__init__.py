"""The collection as it is served: generations, leases, added papers, checks of the files."""
