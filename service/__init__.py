"""Online: reads a snapshot, answers requests."""
