"""The rows of relations that are kept: files by round, what came and what went, images by attribute,
the order in which rounds of several relations commit, and what may be forgotten."""
