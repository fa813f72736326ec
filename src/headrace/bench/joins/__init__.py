"""Standing joins: the figures of the thesis, the methods ours are measured against, and Spark."""
