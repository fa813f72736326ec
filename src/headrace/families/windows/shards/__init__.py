"""Window state past one driver: in shards by group key, on executors."""
