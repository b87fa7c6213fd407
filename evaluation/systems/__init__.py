"""What is compared: word baselines, and what the vectors of encoders allow."""
