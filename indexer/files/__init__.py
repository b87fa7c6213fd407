"""Files that survive a crash, and notes that unfinished work leaves."""
