"""The suite: every test collection that is here, measured into the one file that documents are made from."""
