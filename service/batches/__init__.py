"""Searches by the thousand: scheduler, workers, stored content and files."""
