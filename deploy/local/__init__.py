"""The embedded stack: PostgreSQL, Redis and the three services on one machine, supervised by one process."""
