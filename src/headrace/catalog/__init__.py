"""What is registered: streams, tables and queries, as a log of changes (`log.py`) and its replay
(`catalog.py`)."""
