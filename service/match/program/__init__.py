"""What a match is of, read from files: submissions, profiles of reviewers, conflicts and quotas."""
