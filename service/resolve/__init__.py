"""What a caller names or pastes, as papers of the collection or of its own."""
