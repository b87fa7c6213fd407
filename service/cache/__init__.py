"""What was computed once: in memory, in Redis, and by whoever asks first."""
