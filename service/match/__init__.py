"""Match: how near submissions are to reviewers, and who reviews what."""
