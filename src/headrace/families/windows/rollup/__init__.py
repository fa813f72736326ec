"""From the rows of the Spark aggregate to those of each slot: groups as numbers, rolled up."""
