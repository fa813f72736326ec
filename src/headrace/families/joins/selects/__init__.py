"""Select-joins: an equality between two relations with ranges on both sides."""
