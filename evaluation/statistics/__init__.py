"""How sure a figure is: intervals, paired differences, and what many comparisons at once cost."""
