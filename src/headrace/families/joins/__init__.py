"""Standing joins and range filters: who is affected by a row."""
