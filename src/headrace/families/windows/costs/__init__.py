"""What rounds of windows cost, and whose cost it was."""
