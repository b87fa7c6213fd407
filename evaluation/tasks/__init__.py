"""Tasks: what is measured, each as a value of one shape (``tasks.task``)."""
