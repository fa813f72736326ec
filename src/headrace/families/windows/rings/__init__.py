"""Rings: the newest panes of a slot, and the answers of windows that close."""
