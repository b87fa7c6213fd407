"""Files that survive a crash, and notes of unfinished work."""
