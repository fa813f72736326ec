"""Where things are read, run and stored: home, sources, rounds, answers, recovery, statistics."""
