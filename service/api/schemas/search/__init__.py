"""The shapes of questions and answers."""
