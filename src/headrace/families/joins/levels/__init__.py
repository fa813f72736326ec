"""Levels: queries as immutable index files, and rows looked up in them on executors."""
