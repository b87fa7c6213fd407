"""What is done to a collection, one file a command: only these take its lock."""
