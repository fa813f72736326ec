"""Stabbing groups: ranges that have a point in common, and the hotspots among them."""
