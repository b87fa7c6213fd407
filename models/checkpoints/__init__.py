"""Named checkpoints: where their files lie, fetched and converted into the only format that is loaded."""
