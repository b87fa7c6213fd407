"""Statistical uncertainty of figures: intervals, paired differences and multiple comparisons."""
