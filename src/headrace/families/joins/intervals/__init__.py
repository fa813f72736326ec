"""Standing intervals: which of them a value stabs, and how many."""
