"""The input of a match, read from files: submissions, profiles of reviewers, conflicts and quotas."""
