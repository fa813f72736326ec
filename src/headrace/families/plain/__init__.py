"""Plain Spark beside the shared queries: whatever no other family takes still runs, and gives
Spark's own answer."""
