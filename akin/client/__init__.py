"""The client of a running service, for programs: requests, answers, retries."""
