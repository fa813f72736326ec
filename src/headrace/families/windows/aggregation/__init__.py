"""The one Spark aggregate of a round: what is asked of it, and who is to blame when it fails."""
