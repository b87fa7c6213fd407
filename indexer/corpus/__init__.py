"""The corpus: papers read from files of many formats."""
