"""Aggregates whose partials are dear to merge and cannot be taken apart: distinct counts,
percentiles, modes."""
