"""Band joins: an index of ranges on a difference, and the events that meet them."""
